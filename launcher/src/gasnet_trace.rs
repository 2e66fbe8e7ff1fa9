//! `gasnet_trace`: summarises the files that `GASNET_TRACEFILE`, `GASNET_STATSFILE` and `GASNET_MALLOCFILE` name.
//!
//! It reads files only. Options are those of the summarising script that clients know, and those for the two other outputs.

#[path = "gasnet_trace/heap.rs"]
mod heap;
#[path = "gasnet_trace/html.rs"]
mod html;
#[path = "gasnet_trace/line.rs"]
mod line;
#[path = "gasnet_trace/model.rs"]
mod model;
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
use report::{Wish, FIELDS, SECTIONS};

const USAGE: &str = "\
usage: gasnet_trace [option]... file...
  files               of GASNET_TRACEFILE, GASNET_STATSFILE or GASNET_MALLOCFILE, one or more, of some or all ranks
  -o FILE             write the tables to FILE instead of standard output
  -report R[,R]...    only these tables: GET PUT AM ATOMIC BARRIER COLL SYNC HANDLER LOCK MALLOC
  -sort F[,F]...      sort by TOTAL AVG MIN MAX CALLS TYPE SRC (default: SRC); numbers descend
  -filter T[,T]...    leave out these types: LOCAL GLOBAL WAIT WAITNOTIFY, or any other word of the column TYPE
  -p, -[no]peer       a row for each peer
  -t, -[no]thread     a row for each rank
  -i, -[no]internal   also what has no source line (shown anyway when nothing has one)
  -f, -[no]full       names of source files with their folders
  -html FILE          write one self-contained HTML page instead of tables
  -perfetto FILE      write the events as JSON for Perfetto or Chrome's tracing page instead of tables
  -d                  tell every line that was left out
  -h, -?, -help       this text
Options may begin with one or two dashes, and take their value behind a blank or an equals sign. FILE may be - for standard output.
";

#[derive(Debug, Default)]
struct Options {
    wish: Wish,
    files: Vec<String>,
    out: Option<String>,
    html: Option<String>,
    perfetto: Option<String>,
    verbose: bool,
    help: bool,
}

/// Reads the command line. The error is a sentence.
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
        let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v.to_owned())));
        let mut value = || {
            value
                .clone()
                .or_else(|| arguments.next())
                .ok_or_else(|| format!("option {argument} needs a value"))
        };
        let wish = &mut options.wish;
        match name {
            "o" => options.out = Some(value()?),
            "html" => options.html = Some(value()?),
            "perfetto" => options.perfetto = Some(value()?),
            "report" => wish.sections = words(&value()?, &SECTIONS.map(|s| s.0), "report")?,
            "sort" => wish.sort = words(&value()?, &FIELDS, "field to sort by")?,
            "filter" => {
                wish.filter = value()?
                    .split([',', ' '])
                    .filter(|w| !w.is_empty())
                    .map(str::to_owned)
                    .collect();
            }
            "p" | "peer" => wish.peers = true,
            "nopeer" => wish.peers = false,
            "t" | "thread" => wish.threads = true,
            "nothread" => wish.threads = false,
            "i" | "internal" => wish.internal = true,
            "nointernal" => wish.internal = false,
            "f" | "full" => wish.full = true,
            "nofull" => wish.full = false,
            "d" => options.verbose = true,
            "h" | "?" | "help" => options.help = true,
            _ => return Err(format!("unknown option {argument}")),
        }
    }
    if options.files.is_empty() && !options.help {
        return Err("no file was named".into());
    }
    Ok(options)
}

/// A list of words of `known`, in either case.
fn words(text: &str, known: &[&str], what: &str) -> Result<Vec<String>, String> {
    text.split([',', ' '])
        .filter(|w| !w.is_empty())
        .map(|w| {
            let word = w.to_ascii_uppercase();
            if known.contains(&word.as_str()) {
                Ok(word)
            } else {
                Err(format!("{w} is not a {what}; there are {}", known.join(" ")))
            }
        })
        .collect()
}

/// Where an output goes.
fn create(name: &str) -> Result<Box<dyn std::io::Write>, String> {
    if name == "-" {
        return Ok(Box::new(std::io::stdout()));
    }
    let file = File::create(name).map_err(|why| format!("{name} cannot be written: {why}"))?;
    Ok(Box::new(file))
}

fn run(options: &Options) -> Result<(), String> {
    let mut model = Model::new(options.perfetto.is_some());
    model.tell_all = options.verbose;
    for file in &options.files {
        model.read(file)?;
    }
    for warning in &model.warnings {
        eprintln!("gasnet_trace: warning: {warning}");
    }
    model.finish();
    let wants_events = options.html.is_some() || options.perfetto.is_some();
    if model.lines == 0 && (model.heaps.is_empty() || wants_events) {
        return Err("there is no line of a trace in these files".into());
    }
    let mut text = None;
    if let Some(name) = &options.html {
        save(name, |out| out.write_all(html::page(&model).as_bytes()))?;
    }
    if let Some(name) = &options.perfetto {
        save(name, |out| perfetto::write(out, &model))?;
    }
    if options.out.is_some() || (options.html.is_none() && options.perfetto.is_none()) {
        let tables = report::write(&model, &options.wish);
        if model.rows.is_empty() && model.heaps.is_empty() {
            eprintln!("gasnet_trace: there is nothing for a table: no event that has one was recorded (see GASNET_TRACEMASK, GASNET_STATSMASK)");
        }
        text = Some(tables);
    }
    match text {
        Some(text) => save(options.out.as_deref().unwrap_or("-"), |out| out.write_all(text.as_bytes())),
        None => Ok(()),
    }
}

fn save(name: &str, write: impl FnOnce(&mut BufWriter<Box<dyn std::io::Write>>) -> std::io::Result<()>) -> Result<(), String> {
    let mut out = BufWriter::new(create(name)?);
    match write(&mut out).and_then(|()| out.flush()) {
        // A reader that closes the pipe early (`| head`) has what it wanted.
        Err(why) if why.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|why| format!("{name} cannot be written: {why}")),
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
    fn options_have_one_or_two_dashes_and_values_behind_blanks_or_equals_signs() {
        let options = read("-report put,Get --sort=total -filter local -t -nofull -html x.html a b").unwrap();
        assert_eq!(options.wish.sections, ["PUT", "GET"]);
        assert_eq!(
            (options.wish.sort, options.wish.filter),
            (vec!["TOTAL".to_owned()], vec!["local".to_owned()])
        );
        assert!(options.wish.threads && !options.wish.full && options.html.as_deref() == Some("x.html"));
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
