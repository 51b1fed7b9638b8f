//! Reads what the assembler says of each kernel, and the launch bounds the assembly declares.

use std::collections::HashMap;

use super::table::Kernel;

/// The kernels of one object: `said` is the assembler's verbose report, `assembly` its input.
pub(super) fn kernels(said: &str, assembly: &str, target: &str, code: &str, digest: &str) -> Vec<Kernel> {
    let bounds = bounds(assembly);
    let waiting = waiting(assembly);
    let mut kernels: Vec<Kernel> = Vec::new();
    // A report may speak of device functions in between; their lines belong to no kernel.
    let mut inside: Option<usize> = None;
    let mut own = false;
    for line in said.lines() {
        if let Some(name) = quoted(line, "Compiling entry function") {
            inside = Some(kernels.len());
            kernels.push(Kernel {
                max_threads: bounds.get(name).copied().unwrap_or(0),
                waits: waiting.contains(&name),
                name: name.to_owned(),
                target: target.to_owned(),
                code: code.to_owned(),
                digest: digest.to_owned(),
                ..Kernel::default()
            });
        }
        let Some(kernel) = inside.and_then(|index| kernels.get_mut(index)) else { continue };
        if let Some((_, name)) = line.split_once("Function properties for ") {
            own = name.trim().trim_matches('\'') == kernel.name;
        }
        if own && line.contains("bytes spill stores") {
            let spilled = number_before(line, " bytes spill stores").unwrap_or(0);
            kernel.spill_bytes = spilled.max(number_before(line, " bytes spill loads").unwrap_or(0));
        }
        if line.contains(" registers") {
            kernel.registers = number_before(line, " registers").unwrap_or(0);
            kernel.static_shared = number_before(line, " bytes smem").unwrap_or(0);
        }
    }
    kernels
}

/// Threads each entry of an assembly file declares.
fn bounds(assembly: &str) -> HashMap<&str, u32> {
    let mut found = HashMap::new();
    let mut entry = "";
    for line in assembly.lines() {
        if let Some((_, rest)) = line.split_once(".entry ") {
            entry = rest.split(['(', ' ']).next().unwrap_or_default();
        } else if let Some(rest) = line.strip_prefix(".maxntid ") {
            let threads: u32 = rest.split(',').filter_map(|word| word.trim().parse::<u32>().ok()).product();
            found.insert(entry, threads);
        }
    }
    found
}

/// The entries of an assembly file that wait for the launch in front of them.
fn waiting(assembly: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut entry = "";
    for line in assembly.lines() {
        if let Some((_, rest)) = line.split_once(".entry ") {
            entry = rest.split(['(', ' ']).next().unwrap_or_default();
        } else if line.contains("griddepcontrol.wait") {
            found.push(entry);
        }
    }
    found
}

fn quoted<'a>(line: &'a str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(after)?;
    rest.split('\'').nth(1)
}

fn number_before(line: &str, unit: &str) -> Option<u32> {
    let (before, _) = line.split_once(unit)?;
    before.rsplit([' ', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : Compiling entry function 'rope' for 'sm_90a'
ptxas info    : Function properties for rope
    40 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for __internal_trig
    8 bytes stack frame, 12 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 61 registers, used 1 barriers, 40 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function 'leaky' for 'sm_90a'
ptxas info    : Function properties for leaky
    8 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 80 registers, used 0 barriers, 8 bytes cumulative stack size";

    #[test]
    fn a_report_by_hand() {
        let assembly =
            ".visible .entry rope(\n.maxntid 128, 1, 1\n griddepcontrol.wait;\n.visible .entry leaky(\n)";
        let found = kernels(SAID, assembly, "sm_90a", "rope.cubin", "00");
        let numbers: Vec<_> = found
            .iter()
            .map(|k| (k.name.as_str(), k.registers, k.spill_bytes, k.static_shared, k.max_threads, k.waits))
            .collect();
        assert_eq!(numbers, [("rope", 61, 0, 1024, 128, true), ("leaky", 80, 8, 0, 0, false)]);
    }
}
