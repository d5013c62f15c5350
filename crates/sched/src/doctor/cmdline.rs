//! The kernel's command line.

/// The values that the kernel's parameter `name` is given. What follows `--` belongs to the first
/// process; a parameter of a module has the module's name and a dot before its own.
pub(super) fn values<'a>(line: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let own = words(line).take_while(|word| *word != "--");
    own.filter_map(move |word| {
        let (given, value) = word.split_once('=')?;
        let same = given.bytes().map(dashed).eq(name.bytes().map(dashed));
        same.then(|| value.trim_matches('"'))
    })
}

/// `-` and `_` are the same in the name of a parameter.
fn dashed(byte: u8) -> u8 {
    if byte == b'-' { b'_' } else { byte }
}

/// The words between white space; what stands in quotes is one.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |c: char| {
        quoted ^= c == '"';
        c.is_ascii_whitespace() && !quoted
    })
    .map(|word| match word.strip_prefix('"') {
        Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
        None => word,
    })
    .filter(|word| !word.is_empty())
}

/// Does `isolcpus=VALUE` take CPUs from the scheduler's domains? With other flags alone it only keeps
/// interrupts or the tick away; flags that the kernel does not know it skips.
pub(super) fn isolates_from_domains(value: &str) -> bool {
    let flags = value
        .split(',')
        .take_while(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()));
    let known = flags.filter(|flag| matches!(*flag, "domain" | "managed_irq" | "nohz"));
    let known: Vec<&str> = known.collect();
    known.is_empty() || known.contains(&"domain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_parameters_count() {
        for (line, expected) in [
            ("quiet isolcpus=1 ro", &["1"][..]),
            ("isolcpus=1 -- isolcpus=2", &["1"]),
            ("quiet -- isolcpus=2", &[]),
            ("driver.isolcpus=2 xisolcpus=3 isolcpus", &[]),
            (
                "a=\"x isolcpus=2 y\" \"isolcpus=3\" isolcpus=\"4-5\"",
                &["3", "4-5"],
            ),
            ("isolcpus=domain,1\tisolcpus=2\n", &["domain,1", "2"]),
        ] {
            let found: Vec<&str> = values(line, "isolcpus").collect();
            assert_eq!(found, expected, "{line}");
        }
        assert_eq!(values("nohz-full=1", "nohz_full").next(), Some("1"));
    }

    #[test]
    fn flags_of_isolcpus() {
        for (value, isolates) in [
            ("1-3", true),
            ("domain,1-3", true),
            ("managed_irq,1-3", false),
            ("nohz,managed_irq,1-3", false),
            ("nohz,domain,managed_irq,1-3", true),
            ("unheard,1-3", true),
        ] {
            assert_eq!(isolates_from_domains(value), isolates, "{value}");
        }
    }
}
