// Helpers of the pages that gasnet_trace and gasnet_perf write.
const NS = "http://www.w3.org/2000/svg";
function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
function shape(name, attributes, text) {
  const e = document.createElementNS(NS, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}
function svg(width, height, label) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
}
function bytes(n) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (n >= size) return trim(n / size) + " " + unit;
  return n + " B";
}
function trim(x) { return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2); }
function many(n) { return n.toLocaleString("en"); }
function section(id, title, about, ...children) {
  const s = element("section", { id }, element("h2", {}, title));
  if (about) s.append(element("p", {}, about));
  s.append(...children);
  return s;
}
function table(head, rows) {
  const t = element("table", {}, element("thead", {}, element("tr", {}, ...head.map(h => element("th", { scope: "col" }, h)))));
  const body = element("tbody", {});
  for (const row of rows) body.append(element("tr", {}, ...row.map(c => element("td", {}, String(c)))));
  t.append(body);
  return t;
}
function themeButton() {
  const button = element("button", { id: "theme", type: "button" }, "light / dark");
  button.onclick = () => {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (dark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  };
  return button;
}
function legend(names, colour) {
  const box = element("div", { class: "legend" });
  for (const [key, name] of names) box.append(element("span", {}, element("i", { style: `background:var(${colour(key)})` }), name));
  return box;
}

const tip = document.getElementById("tip");
document.addEventListener("mousemove", event => {
  const text = event.target.getAttribute && event.target.getAttribute("data-tip");
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, event.clientY + (event.clientY > innerHeight - 90 ? -tip.offsetHeight - 10 : 16)) + "px";
});
