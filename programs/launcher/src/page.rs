//! A self-contained HTML page: `page.html` with the data as JSON, which its script draws. It has no
//! external references. Parts without data are left out. Style and helpers are those of the page of
//! `gasnet_perf`, too.

use super::json;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("../../page/style.css");
const HELPERS: &str = include_str!("../../page/helpers.js");

/// A name, and its value as JSON.
pub type Member = (&'static str, String);

/// The page.
pub fn page(title: &str, mut data: Vec<Member>) -> String {
    data.push(("title", json::string(title)));
    // In a script element only the end tag and comments are special; both begin with <.
    PAGE.replace("/*STYLE*/", STYLE)
        .replace("/*HELPERS*/", HELPERS)
        .replace("<!--TITLE-->", &escape(title))
        .replace("/*DATA*/null", &json::object(data).replace('<', "\\u003c"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// An array of numbers.
pub fn numbers<N: ToString>(items: impl IntoIterator<Item = N>) -> String {
    json::array(items.into_iter().map(|number| number.to_string()))
}

/// An array of strings.
pub fn strings<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    json::array(items.into_iter().map(|text| json::string(text.as_ref())))
}

/// One row of a matrix for each pair of ranks, or groups of them, with traffic of a class.
pub fn cell(class: usize, from: u32, to: u32, count: u64, bytes: u64) -> String {
    format!("[{class},{from},{to},{count},{bytes}]")
}
