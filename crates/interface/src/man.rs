//! Manual pages: the text of `--help`, laid out as man(7) has it.
//!
//! Paragraphs are filled. Lines that begin with two blanks are examples or tables and keep their layout.

use clap::{Arg, Command};
use roff::{Inline, Roff, bold, italic, roman};
use sidelane_policy::settings::document::{self, Entry};
use std::path::Path;

/// The section of commands.
const COMMANDS: &str = "1";

/// Writes a page for a command and for each one below it, but for those that are hidden, into an existing folder.
///
/// # Errors
/// What the system says.
pub fn generate(command: Command, folder: &Path) -> std::io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write(&command, folder)
}

fn write(command: &Command, folder: &Path) -> std::io::Result<()> {
    let file = format!("{}.{COMMANDS}", name(command));
    std::fs::write(folder.join(file), page(command))?;
    let below = command.get_subcommands().filter(|it| !it.is_hide_set());
    below.into_iter().try_for_each(|it| write(it, folder))
}

/// As the page is called: `sidelane-run`.
fn name(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    name.replace(' ', "-")
}

/// The page of a command.
pub fn page(command: &Command) -> String {
    let mut roff = Roff::new();
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    named(&mut roff, &name(command), about.trim_end_matches('.'));
    section(&mut roff, "SYNOPSIS");
    synopsis(&mut roff, command);
    section(&mut roff, "DESCRIPTION");
    let long = command.get_long_about().or_else(|| command.get_about());
    prose(
        &mut roff,
        &long.map(ToString::to_string).unwrap_or_default(),
    );
    arguments(&mut roff, command);
    subcommands(&mut roff, command);
    let after = command.get_after_long_help();
    let after = after.or_else(|| command.get_after_help());
    headed(
        &mut roff,
        &after.map(ToString::to_string).unwrap_or_default(),
    );
    also(&mut roff, command);
    page_of(&name(command), COMMANDS, &roff)
}

/// A page from its sections. `TH` by hand: its date is empty, which [`Roff`] cannot write.
fn page_of(name: &str, number: &str, sections: &Roff) -> String {
    let manual = match number {
        COMMANDS => "User Commands",
        _ => "File Formats",
    };
    let (name, version) = (name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    let head = format!(
        ".TH \"{name}\" \"{number}\" \"\" \"Sidelane {version}\" \"{manual}\"\n.nh\n.ad l\n"
    );
    // as they are typed: in prose groff makes other signs of these
    let typed = [('`', "\\(ga"), ('^', "\\(ha"), ('~', "\\(ti")];
    let text = typed
        .iter()
        .fold(sections.render(), |text, (sign, escape)| {
            text.replace(*sign, escape)
        });
    head + &text
}

fn section(roff: &mut Roff, title: &str) {
    roff.control("SH", [title]);
}

/// `NAME`, as whatis(1) reads it.
fn named(roff: &mut Roff, name: &str, about: &str) {
    section(roff, "NAME");
    roff.text([roman(format!("{name} - {about}"))]);
}

/// How it is called, each option with its value.
fn synopsis(roff: &mut Roff, command: &Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = vec![bold(name)];
    let of_all = ["help", "version"];
    let shown = |arg: &&Arg| !arg.is_hide_set() && !of_all.contains(&arg.get_id().as_str());
    for arg in command.get_arguments().filter(shown) {
        let (before, after) = match arg.is_required_set() {
            true => (" ", ""),
            false => (" [", "]"),
        };
        line.push(roman(before));
        match arg.is_positional() && arg.is_last_set() {
            true => line.extend([roman("-- "), italic(values(arg))]),
            false => line.extend(spelt(arg)),
        }
        let many = matches!(arg.get_action(), clap::ArgAction::Append);
        line.push(roman(format!("{after}{}", if many { " ..." } else { "" })));
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND"), roman(" ...")]);
    }
    roff.text(line);
}

/// `--config FILE`, `FILE`, `-n, --no-stdin`.
fn spelt(arg: &Arg) -> Vec<Inline> {
    if arg.is_positional() {
        return vec![italic(values(arg))];
    }
    let mut spelt = Vec::new();
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    for (index, name) in short.into_iter().chain(long).enumerate() {
        spelt.extend((index > 0).then(|| roman(", ")));
        spelt.push(bold(name));
    }
    let Some(range) = arg.get_num_args().filter(|range| range.takes_values()) else {
        return spelt;
    };
    let (before, after) = match (range.min_values(), arg.is_require_equals_set()) {
        (0, true) => ("[=", "]"),
        (0, false) => (" [", "]"),
        (_, true) => ("=", ""),
        (_, false) => (" ", ""),
    };
    spelt.extend([roman(before), italic(values(arg)), roman(after)]);
    spelt
}

fn values(arg: &Arg) -> String {
    match arg.get_value_names() {
        Some(names) => names.join(" "),
        None => arg.get_id().as_str().to_uppercase(),
    }
}

/// Arguments and options, by the headings that they have.
fn arguments(roff: &mut Roff, command: &Command) {
    let all: Vec<&Arg> = (command.get_arguments())
        .filter(|arg| !arg.is_hide_set())
        .collect();
    let mut headings = vec![("ARGUMENTS".to_owned(), Vec::new())];
    headings.push(("OPTIONS".to_owned(), Vec::new()));
    for arg in all {
        let heading = match (arg.is_positional(), arg.get_help_heading()) {
            (true, _) => "ARGUMENTS".to_owned(),
            (false, None) => "OPTIONS".to_owned(),
            (false, Some(heading)) => format!("OPTIONS: {}", heading.to_uppercase()),
        };
        match headings.iter_mut().find(|(title, _)| *title == heading) {
            Some((_, args)) => args.push(arg),
            None => headings.push((heading, vec![arg])),
        }
    }
    for (title, args) in headings.iter().filter(|(_, args)| !args.is_empty()) {
        section(roff, title);
        args.iter().for_each(|arg| argument(roff, arg));
    }
}

fn argument(roff: &mut Roff, arg: &Arg) {
    roff.control("TP", []);
    roff.text(spelt(arg));
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut help = help
        .map(|help| joined(&help.to_string()))
        .unwrap_or_default();
    let defaults = arg.get_default_values();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() && takes_values(arg) {
        let defaults: Vec<_> = defaults.iter().map(|it| it.to_string_lossy()).collect();
        help += &format!(" [default: {}]", defaults.join(","));
    }
    roff.text([roman(help)]);
    let words = arg.get_possible_values();
    if words.is_empty() || !takes_values(arg) {
        return;
    }
    roff.control("RS", []);
    for word in words.iter().filter(|word| !word.is_hide_set()) {
        roff.control("TP", []);
        roff.text([bold(word.get_name())]);
        let help = word.get_help().map(ToString::to_string);
        roff.text([roman(joined(&help.unwrap_or_default()))]);
    }
    roff.control("RE", []);
}

fn takes_values(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.takes_values())
}

fn subcommands(roff: &mut Roff, command: &Command) {
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    for (index, below) in shown.enumerate() {
        if index == 0 {
            section(roff, "COMMANDS");
        }
        roff.control("TP", []);
        roff.text([bold(name(below)), roman(format!("({COMMANDS})"))]);
        let about = below.get_about().map(ToString::to_string);
        roff.text([roman(joined(&about.unwrap_or_default()))]);
    }
}

/// Text in which a line such as `Examples:` begins a section; prose that follows is notes.
fn headed(roff: &mut Roff, text: &str) {
    let mut has_notes = false;
    let mut is_first = true;
    for block in text.split("\n\n").filter(|block| !block.is_empty()) {
        let (first, rest) = block.split_once('\n').unwrap_or((block, ""));
        let is_head = first.ends_with(':') && !first.contains(' ') || first == "Exit codes:";
        let literal = block.starts_with("  ");
        if is_head && rest.starts_with("  ") {
            section(roff, &first.trim_end_matches(':').to_uppercase());
            (has_notes, is_first) = (false, true);
            paragraph(roff, rest);
            continue;
        }
        if !literal && !has_notes {
            section(roff, "NOTES");
            (has_notes, is_first) = (true, true);
        }
        if !is_first {
            roff.control("PP", []);
        }
        is_first = false;
        paragraph(roff, block);
    }
}

/// Paragraphs, of which lines that begin with two blanks keep their layout.
fn prose(roff: &mut Roff, text: &str) {
    for (index, block) in text.split("\n\n").enumerate() {
        if index > 0 {
            roff.control("PP", []);
        }
        paragraph(roff, block);
    }
}

/// One of them.
fn paragraph(roff: &mut Roff, block: &str) {
    let mut literal = false;
    for line in block.lines() {
        let keeps = line.starts_with("  ");
        if keeps != literal {
            roff.control(if keeps { "nf" } else { "fi" }, []);
            if !keeps {
                roff.control("PP", []);
            }
            literal = keeps;
        }
        roff.text([roman(line.trim_end())]);
    }
    if literal {
        roff.control("fi", []);
    }
}

/// Lines of a paragraph as one.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn also(roff: &mut Roff, command: &Command) {
    section(roff, "SEE ALSO");
    let (above, below) = (name(command), command.get_subcommands());
    let mut pages: Vec<String> = match above.rsplit_once('-') {
        Some((above, _)) => vec![format!("{above}({COMMANDS})")],
        None => Vec::new(),
    };
    let below = below.filter(|it| !it.is_hide_set());
    pages.extend(below.map(|it| format!("{}({COMMANDS})", name(it))));
    pages.push("sidelane.toml(5)".to_owned());
    roff.text([roman(pages.join(", "))]);
}

/// What the page of the configuration file says before the settings.
const CONFIGURATION: &str = "\
The file is read by 'sidelane run --config FILE', which looks for none by itself. It is TOML: tables
[[rule]], [[pool]] and one table [scheduler]; all of them may be left out. A mistake is told as
FILE:LINE:COLUMN, and nothing is attached then; 'sidelane run --check --config FILE' looks for mistakes
alone.

Each [[rule]] has these keys:

  match      what the rule finds: cgroup:GLOB, unit:NAME, user-unit:NAME, label:WORD,
             exe:PATH, comm:THREAD-NAME, user:NAME, policy:idle|batch|normal, nice:>=N|<=N|=N
  class      critical, normal or batch
  borrow, budget_ms, objective
             of critical rules: as the settings below, for what the rule finds

The first rule that matches a task decides.

Each [[pool]] has these keys:

  cgroup     path of the cgroup below the cgroup root
  capacity_cores, or share
             what it may use: cores, or a share of what all pools may use
  charge     mt1 (work, by thread_perf) or raw (time on lanes)
  period_ms  how often its allowance is renewed

The table [scheduler] has the settings below. Of one with a dot in its name the part before it is a table
of its own, as in retention = { min_ms = 1 }.";

/// What the page of the configuration file has as example.
const EXAMPLE: &str = "  \
  [[rule]]
  match = \"unit:nginx.service\"
  class = \"critical\"

  [[rule]]
  match = \"cgroup:/batch.slice\"
  class = \"batch\"

  [scheduler]
  thread_perf = [1, 0.6]";

/// The page of the configuration file, `sidelane.toml(5)`.
pub fn configuration() -> String {
    let mut roff = Roff::new();
    named(
        &mut roff,
        "sidelane.toml",
        "configuration of sidelane-run(1)",
    );
    section(&mut roff, "DESCRIPTION");
    prose(&mut roff, CONFIGURATION);
    section(&mut roff, "SETTINGS");
    for Entry {
        name,
        default,
        range,
        is_tunable,
        meaning,
    } in document::entries()
    {
        roff.control("TP", []);
        roff.text([
            bold(name),
            roman(format!(" (default: {})", plain(&default))),
        ]);
        let mut text = plain(&meaning);
        if !range.is_empty() {
            text += &format!(". Range: {}", plain(&range));
        }
        if is_tunable {
            text += ". Can be changed with sidelane-tune(1)";
        }
        roff.text([roman(text + ".")]);
    }
    section(&mut roff, "EXAMPLE");
    prose(&mut roff, EXAMPLE);
    section(&mut roff, "SEE ALSO");
    roff.text([roman(
        "sidelane-run(1), sidelane-tune(1), systemd.unit(5), cgroups(7)",
    )]);
    page_of("sidelane.toml", "5", &roff)
}

/// Without the marks of Markdown; of a link its words remain.
fn plain(text: &str) -> String {
    let mut plain = text.replace('`', "");
    while let Some((before, after)) = plain.split_once("](")
        && let Some((before, words)) = before.rsplit_once('[')
        && let Some((_, after)) = after.split_once(')')
    {
        plain = format!("{before}{words}{after}");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Command {
        let run = Command::new("run")
            .about("Attach it.")
            .long_about("First words\ngo on.\n\n  alone    a row\n  default  another\n\nLast.")
            .after_help("Examples:\n  sidelane run --config 'a b'\n  sidelane run\n\nA note.")
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("FILE")
                    .help("A\nfile."),
            )
            .arg(Arg::new("secret").long("secret").hide(true));
        let hidden = Command::new("hidden").hide(true);
        Command::new("sidelane").subcommand(run).subcommand(hidden)
    }

    #[test]
    fn examples_and_tables_keep_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        generate(run(), folder.path()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("sidelane-run.1")).unwrap();
        assert!(
            page.contains(".nf\n  alone    a row\n  default  another\n.fi\n"),
            "{page}"
        );
        let example =
            ".SH EXAMPLES\n.nf\n  sidelane run \\-\\-config \\*(Aqa b\\*(Aq\n  sidelane run\n.fi\n";
        assert!(page.contains(example), "{page}");
        assert!(page.contains(".SH NOTES\nA note.\n"), "{page}");
        assert!(
            page.contains("\\fBsidelane run\\fR [\\fB\\-\\-config\\fR \\fIFILE\\fR]"),
            "{page}"
        );
        assert!(page.contains("First words\ngo on.\n"), "{page}");
        assert!(!page.contains("secret"), "{page}");
        assert!(!folder.path().join("sidelane-hidden.1").exists());
    }

    #[test]
    fn settings_are_told_with_default_and_range() {
        let page = configuration();
        for entry in document::entries() {
            let first = format!(".TP\n\\fB{}\\fR (default: ", entry.name);
            assert!(page.contains(&first), "{first}{page}");
        }
        let range = "Range: p50–p99.9, 10 µs–100 s. Can be changed with sidelane\\-tune(1).\n";
        assert!(page.contains(range), "{page}");
        assert!(!page.contains("]("), "{page}");
    }
}
