// node perf_page.js PAGE: runs the script of a page of gasnet_perf --html in a document that only
// records, and prints as JSON: sections, curves, limits, circles, rows of numbers, their ratios.
"use strict";
const made = [];
function make(name) {
  const e = { name, children: [], attributes: {}, style: {}, dataset: {}, textContent: "" };
  e.setAttribute = (key, value) => {
    if (/NaN|Infinity|undefined/.test(String(value))) throw new Error(`<${name} ${key}="${value}">`);
    e.attributes[key] = String(value);
  };
  e.append = (...all) => e.children.push(...all);
  e.replaceChildren = (...all) => { e.children = all; };
  Object.defineProperty(e, "lastChild", { get: () => e.children[e.children.length - 1] });
  made.push(e);
  return e;
}
globalThis.document = { createElement: make, createElementNS: (_, name) => make(name), getElementById: make, addEventListener() {} };
const page = require("fs").readFileSync(process.argv[2], "utf8");
const scripts = [...page.matchAll(/<script>([^]*?)<\/script>/g)];
if (scripts.length !== 1 || /\/\*[A-Z]+\*\//.test(page)) throw new Error("the page is incomplete");
new Function(scripts[0][1])();
const of = (name, kind) => made.filter(e => e.name === name && (kind === undefined || e.attributes.class === kind));
const cells = of("td").filter(e => "class" in e.attributes).map(e => e.children[0]);
process.stdout.write(JSON.stringify({ sections: of("section").map(e => e.attributes.id), curves: of("polyline", "curve").length,
  limits: of("polyline", "limit").length, circles: of("circle").length, rows: of("tr").length - 1, ratios: cells }));
