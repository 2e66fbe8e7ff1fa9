//! `gasnet_trace`: summarises files of `GASNET_TRACEFILE`, `GASNET_STATSFILE` and
//! `GASNET_MALLOCFILE`.
//!
//! It only reads files. The options are those of the reference's `gasnet_trace`, and `-html`,
//! `-json` and `-perfetto`.

#[path = "gasnet_trace/heap.rs"]
mod heap;
#[path = "gasnet_trace/html.rs"]
mod html;
mod json;
#[path = "gasnet_trace/line.rs"]
mod line;
#[path = "gasnet_trace/model.rs"]
mod model;
mod page;
#[path = "gasnet_trace/perfetto.rs"]
mod perfetto;
#[path = "gasnet_trace/report.rs"]
mod report;
#[path = "gasnet_trace/states.rs"]
mod states;
#[path = "gasnet_trace/statistics.rs"]
mod statistics;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::process::ExitCode;

use model::Model;
use report::{Selection, FIELDS, SECTIONS};

const USAGE: &str = "\
usage: gasnet_trace [option]... file...
  file...             files of GASNET_TRACEFILE, GASNET_STATSFILE or GASNET_MALLOCFILE, of some or all ranks
  -o FILE             write the tables to FILE instead of standard output
  -report R[,R]...    print only these tables: GET PUT AM ATOMIC BARRIER COLL SYNC HANDLER LOCK MALLOC
  -sort F[,F]...      sort by TOTAL AVG MIN MAX CALLS TYPE SRC (default: SRC); numbers descend
  -filter T[,T]...    omit these types: LOCAL GLOBAL WAIT WAITNOTIFY, or any other word of the column TYPE
  -p, -[no]peer       print a row for each peer
  -t, -[no]thread     print a row for each rank
  -i, -[no]internal   also show events without a source line (always shown if no event has one)
  -f, -[no]full       show source files with their directories
  -html FILE          write one self-contained HTML page instead of tables
  -json FILE          write the data of that page as JSON instead of tables
  -perfetto FILE      write the events as JSON for Perfetto or Chrome's tracing page instead of tables
  -d                  report every skipped line
  -h, --help          print this text
Options may begin with one or two dashes, and take their value after a space or an equals sign. \
FILE may be - for standard output.
The exit status is 0, 1 if files cannot be read or written or have no trace, 2 for invalid options.
";

#[derive(Debug, Default)]
struct Options {
    selection: Selection,
    files: Vec<String>,
    out: Option<String>,
    html: Option<String>,
    json: Option<String>,
    perfetto: Option<String>,
    verbose: bool,
    help: bool,
}

/// Reads the command line. The error is a message.
fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        let Some(word) = argument.strip_prefix('-').filter(|w| !w.is_empty()) else {
            options.files.push(argument);
            continue;
        };
        let word = word.strip_prefix('-').unwrap_or(word);
        if word.is_empty() {
            options.files.extend(arguments.by_ref());
            break;
        }
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(n, v)| (n, Some(v.to_owned())));
        let mut value = || {
            value
                .clone()
                .or_else(|| arguments.next())
                .ok_or_else(|| format!("option {argument} needs a value"))
        };
        let selection = &mut options.selection;
        match name {
            "o" => options.out = Some(value()?),
            "html" => options.html = Some(value()?),
            "json" => options.json = Some(value()?),
            "perfetto" => options.perfetto = Some(value()?),
            "report" => selection.sections = words(&value()?, &SECTIONS.map(|s| s.0), "report")?,
            "sort" => selection.sort = words(&value()?, &FIELDS, "field to sort by")?,
            "filter" => {
                selection.filter = value()?
                    .split([',', ' '])
                    .filter(|w| !w.is_empty())
                    .map(str::to_owned)
                    .collect();
            }
            "p" | "peer" => selection.peers = true,
            "nopeer" => selection.peers = false,
            "t" | "thread" => selection.threads = true,
            "nothread" => selection.threads = false,
            "i" | "internal" => selection.internal = true,
            "nointernal" => selection.internal = false,
            "f" | "full" => selection.full = true,
            "nofull" => selection.full = false,
            "d" => options.verbose = true,
            "h" | "?" | "help" => options.help = true,
            _ => return Err(format!("unknown option {argument}")),
        }
    }
    if options.files.is_empty() && !options.help {
        return Err("no file was given".into());
    }
    Ok(options)
}

/// A list of words of `known`, in upper or lower case.
fn words(text: &str, known: &[&str], what: &str) -> Result<Vec<String>, String> {
    text.split([',', ' '])
        .filter(|w| !w.is_empty())
        .map(|w| {
            let word = w.to_ascii_uppercase();
            if known.contains(&word.as_str()) {
                Ok(word)
            } else {
                Err(format!("unknown {what} {w}; expected one of {}", known.join(" ")))
            }
        })
        .collect()
}

fn create(name: &str) -> Result<Box<dyn std::io::Write>, String> {
    if name == "-" {
        return Ok(Box::new(std::io::stdout()));
    }
    let file = File::create(name).map_err(|why| format!("cannot write {name}: {why}"))?;
    Ok(Box::new(file))
}

fn run(options: &Options) -> Result<(), String> {
    let mut model = Model::new(options.perfetto.is_some());
    model.all_warnings = options.verbose;
    for file in &options.files {
        model.read(file)?;
    }
    for warning in &model.warnings {
        eprintln!("gasnet_trace: warning: {warning}");
    }
    model.finish();
    let wants_events = options.html.is_some() || options.json.is_some() || options.perfetto.is_some();
    if model.lines == 0 && (model.heaps.is_empty() || wants_events) {
        return Err("these files contain no trace".into());
    }
    if let Some(name) = &options.html {
        save(name, |out| out.write_all(html::page(&model).as_bytes()))?;
    }
    if let Some(name) = &options.json {
        save(name, |out| writeln!(out, "{}", html::data(&model)))?;
    }
    if let Some(name) = &options.perfetto {
        save(name, |out| perfetto::write(out, &model))?;
    }
    if options.out.is_some() || !wants_events {
        let tables = report::write(&model, &options.selection);
        if model.rows.is_empty() && model.heaps.is_empty() {
            eprintln!(
                "gasnet_trace: nothing to print: the files have no events for the tables (see GASNET_TRACEMASK, \
                 GASNET_STATSMASK)"
            );
        }
        let name = options.out.as_deref().unwrap_or("-");
        save(name, |out| out.write_all(tables.as_bytes()))?;
    }
    Ok(())
}

fn save(
    name: &str,
    write: impl FnOnce(&mut BufWriter<Box<dyn std::io::Write>>) -> std::io::Result<()>,
) -> Result<(), String> {
    let mut out = BufWriter::new(create(name)?);
    match write(&mut out).and_then(|()| out.flush()) {
        // A reader that closes the pipe early (`| head`) is not an error.
        Err(why) if why.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|why| format!("cannot write {name}: {why}")),
    }
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprint!("gasnet_trace: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.help {
        return end(save("-", |out| out.write_all(USAGE.as_bytes())));
    }
    end(run(&options))
}

fn end(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("gasnet_trace: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        options(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_have_one_or_two_dashes_and_values_after_spaces_or_equals_signs() {
        let options = read("-report put,Get --sort=total -filter local -t -nofull -html x.html a b").unwrap();
        assert_eq!(options.selection.sections, ["PUT", "GET"]);
        assert_eq!(
            (options.selection.sort, options.selection.filter),
            (vec!["TOTAL".to_owned()], vec!["local".to_owned()])
        );
        assert!(options.selection.threads && !options.selection.full && options.html.as_deref() == Some("x.html"));
        assert_eq!(options.files, ["a", "b"]);
        assert_eq!(read("-t -nothread -- -x").unwrap().files, ["-x"]);
    }

    #[test]
    fn bad_options_are_explained() {
        assert!(read("-bogus x").unwrap_err().contains("-bogus"));
        assert!(read("-report MEMORIES x").unwrap_err().contains("MEMORIES"));
        assert!(read("-o").unwrap_err().contains("needs a value"));
        assert!(read("").unwrap_err().contains("no file") && read("-h").unwrap().help);
    }
}
