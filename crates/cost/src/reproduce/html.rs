//! The reproduction as one page.

use std::fmt::Write;

use super::{Reproduction, text::summary};
use crate::draw::escaped;

/// One HTML file with the tables and the figure; it loads nothing.
#[must_use]
pub fn html(it: &Reproduction) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>P4 reproduced</title>\n\
         <style>body{font-family:sans-serif;max-width:60em;margin:2em auto}table{border-collapse:collapse;margin:1em 0}\
         td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}.predicted{font-weight:bold}</style></head><body>\n\
         <h1>Security and performance of GD generation, reproduced</h1>\n",
    );
    let _ = writeln!(page, "<p>{}</p>", escaped(&summary(it)));
    for table in [2, 3] {
        let _ = writeln!(page, "<h2>Table {table}: SC{}, tags a second</h2>\n<table>", table - 1);
        page.push_str("<tr><th>platform<th>key<th>printed<th>here<th>off %<th>origin<th>measured<th>error of model %<th>of measurement %</tr>\n");
        for row in it.rows.iter().filter(|row| row.table == table) {
            let origin = row.origin.name();
            let _ = writeln!(
                page,
                "<tr class=\"{origin}\"><td>{}<td>{}<td>{:.2}<td>{:.4}<td>{:+.3}<td>{origin}<td>{:.2}<td>{:.2}<td>{:.2}</tr>",
                row.platform,
                row.key,
                row.printed,
                row.value,
                row.off,
                row.measured,
                row.error_of_model,
                row.error_of_measurement
            );
        }
        page.push_str("</table>\n");
    }
    page.push_str("<h2>Table 4: from SC1 to SC2, % of throughput lost</h2>\n<table>\n");
    page.push_str("<tr><th>platform<th>key<th>printed<th>here<th>unrounded<th>measured</tr>\n");
    for row in &it.degradations {
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{}<td>{:.2}<td>{:.3}<td>{:.3}<td>{:.2}</tr>",
            row.platform, row.key, row.printed, row.value, row.unrounded, row.printed_measured
        );
    }
    page.push_str("</table>\n<h2>Figure 7 as a family over the queue size</h2>\n");
    page.push_str(&it.figure.svg());
    page.push_str("</body></html>\n");
    page
}
