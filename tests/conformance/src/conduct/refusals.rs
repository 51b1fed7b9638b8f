//! Calls that break the contract, made on the plugin's own tables: each must be
//! refused with a sentence, and the device must go on working.

use abi_stable::std_types::RSlice;
use cajeta_abi::{
    Access, BufferArg, Code, DeviceV1, ErrorBuf, Handle, Launch, MemInfo, MemoryKind, Problem, Row, Ticket,
};
use cajeta_plugin_host::Device;

use super::broken;
use super::lists::subject;
use crate::case::Case;
use crate::execute::{Failure, alignment};
use crate::random::Random;

/// A device opened on the raw table, closed at the end.
struct Raw {
    table: &'static DeviceV1,
    device: Handle,
}

impl Raw {
    fn open(device: &Device) -> Result<Raw, Failure> {
        let table = device.backend().device_table();
        let (mut handle, mut error) = (Handle::NONE, ErrorBuf::new());
        match (table.open)(device.index(), &mut handle, &mut error) {
            Code::OK => Ok(Raw { table, device: handle }),
            // A device that opens once only is within its rights.
            code => {
                Err(Failure::Unsupported(format!("a second opening: {}: {}", code.name(), error.as_str())))
            }
        }
    }

    fn alloc(&self, bytes: u64) -> Result<Handle, Failure> {
        let (mut out, mut error) = (Handle::NONE, ErrorBuf::new());
        match (self.table.alloc)(self.device, bytes, MemoryKind::DEVICE, 1, &mut out, &mut error) {
            Code::OK => Ok(out),
            code => Err(broken(format!("alloc of {bytes} bytes: {}: {}", code.name(), error.as_str()))),
        }
    }

    fn queue(&self) -> Result<Handle, Failure> {
        let (mut out, mut error) = (Handle::NONE, ErrorBuf::new());
        match (self.table.queue)(self.device, &mut out, &mut error) {
            Code::OK => Ok(out),
            code => Err(broken(format!("queue: {}: {}", code.name(), error.as_str()))),
        }
    }

    fn list(&self, launch: Launch<'_>) -> (Code, Handle, String) {
        let (mut out, mut error) = (Handle::NONE, ErrorBuf::new());
        let code = (self.table.list)(self.device, RSlice::from_slice(&[launch]), &mut out, &mut error);
        (code, out, error.as_str().to_owned())
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A device that was closed by a check answers that it is stale.
        let _ = (self.table.close)(self.device);
    }
}

fn refused(code: Code, call: &str) -> Result<(), Failure> {
    match code {
        Code::INVALID | Code::UNSUPPORTED => Ok(()),
        code => Err(broken(format!("{call} answers `{}`, `invalid call` expected", code.name()))),
    }
}

/// Values that are no live handle: none, one off, invented, another table's.
fn strangers(live: Handle, other: Handle) -> [Handle; 5] {
    [Handle::NONE, Handle(live.0.wrapping_add(1)), Handle(u64::MAX), Handle(0x1234), other]
}

pub(super) fn handles(device: &Device, _seed: u64) -> Result<(), Failure> {
    let raw = Raw::open(device)?;
    let table = raw.table;
    let (buffer, freed, queue) = (raw.alloc(4096)?, raw.alloc(4096)?, raw.queue()?);
    if (table.free)(raw.device, freed) != Code::OK {
        return Err(broken("free of a live buffer is refused"));
    }
    let mut error = ErrorBuf::new();
    for handle in strangers(buffer, queue).into_iter().chain([freed]) {
        let mut address = std::ptr::null_mut();
        refused((table.map)(raw.device, handle, &mut address, &mut error), "map of no live buffer")?;
        refused((table.free)(raw.device, handle), "free of no live buffer")?;
    }
    for handle in strangers(queue, buffer) {
        refused((table.poll)(raw.device, handle, Ticket(0), 0, &mut error), "poll of no live queue")?;
        refused((table.queue_free)(raw.device, handle), "queue_free of no live queue")?;
        refused((table.list_free)(raw.device, handle), "list_free of no live list")?;
        let mut ticket = Ticket::NONE;
        refused(
            (table.submit)(raw.device, queue, handle, 0, &mut ticket, &mut error),
            "submit of no live list",
        )?;
        let mut info = MemInfo::default();
        refused((table.mem_info)(handle, &mut info, &mut error), "mem_info of no live device")?;
        refused((table.close)(handle), "close of no live device")?;
    }
    // A handle freed and given out again is another one.
    let again = raw.alloc(4096)?;
    if again == freed {
        return Err(broken("a freed buffer's handle is given out again as it was"));
    }
    refused((table.free)(raw.device, freed), "free of a stale handle after another allocation")?;
    // What is left open goes with the device, and the device's handle with it.
    if (table.close)(raw.device) != Code::OK {
        return Err(broken("close of a live device is refused"));
    }
    refused((table.free)(raw.device, buffer), "free on a closed device")?;
    refused((table.close)(raw.device), "a second close")
}

pub(super) fn allocations(device: &Device, _seed: u64) -> Result<(), Failure> {
    let raw = Raw::open(device)?;
    let (mut out, mut error) = (Handle::NONE, ErrorBuf::new());
    let mut alloc = |bytes| (raw.table.alloc)(raw.device, bytes, MemoryKind::DEVICE, 0, &mut out, &mut error);
    refused(alloc(0), "alloc of 0 bytes")?;
    for bytes in [u64::MAX, u64::MAX - 4095, 1 << 62] {
        match alloc(bytes) {
            Code::OUT_OF_MEMORY | Code::INVALID | Code::UNSUPPORTED => {}
            code => return Err(broken(format!("alloc of {bytes} bytes answers `{}`", code.name()))),
        }
    }
    raw.alloc(4096).map(|_| ())
}

pub(super) fn tickets(device: &Device, _seed: u64) -> Result<(), Failure> {
    let raw = Raw::open(device)?;
    let queue = raw.queue()?;
    let mut error = ErrorBuf::new();
    for ticket in [1, 2, u64::MAX] {
        let code = (raw.table.poll)(raw.device, queue, Ticket(ticket), 0, &mut error);
        refused(code, "poll of a ticket that was not given out")?;
    }
    let mut elapsed = 0;
    let code = (raw.table.elapsed)(raw.device, queue, Ticket(1), Ticket(2), &mut elapsed, &mut error);
    refused(code, "elapsed between tickets that were not given out")
}

pub(super) fn launches(device: &Device, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed, "launches", 0);
    let case = subject(device, &mut random)?;
    let raw = Raw::open(device)?;
    let rows = device.backend().rows();
    let row = &rows[case.row];
    let good = Good::new(device, &raw, &case, row)?;
    let (code, list, text) = raw.list(good.launch(&good.args, &case.drawn.scalars));
    if code != Code::OK {
        return Err(broken(format!("a correct launch of {} is refused: {text}", row.name)));
    }
    if (raw.table.list_free)(raw.device, list) != Code::OK {
        return Err(broken("list_free of a live list is refused"));
    }
    let must_fail = |what: &str, launch: Launch<'_>| -> Result<(), Failure> {
        let (code, _, text) = raw.list(launch);
        refused(code, &format!("list with {what} (row {})", row.name))?;
        if text.is_empty() {
            Err(broken(format!("list with {what} is refused without a sentence")))
        } else {
            Ok(())
        }
    };
    let scalars = &case.drawn.scalars;
    let base = good.launch(&good.args, scalars);
    must_fail("a row that does not exist", Launch { row: rows.len() as u32, ..base })?;
    must_fail("a row that does not exist", Launch { row: u32::MAX, ..base })?;
    must_fail("no arguments", good.launch(&[], scalars))?;
    let more: Vec<BufferArg> = good.args.iter().copied().chain(good.args.first().copied()).collect();
    must_fail("an argument too many", good.launch(&more, scalars))?;
    must_fail("scalars of another length", good.launch(&good.args, &[scalars.as_slice(), &[0; 8]].concat()))?;
    must_fail("a split of 4 billion", Launch { split: u32::MAX, ..base })?;
    must_fail("a problem of no rows", Launch { problem: Problem { m: 0, ..base.problem }, ..base })?;
    let huge = Problem { m: u64::MAX, k: u64::MAX - 255, ..base.problem };
    must_fail("a problem that overflows", Launch { problem: huge, ..base })?;
    for (index, arg) in good.args.iter().enumerate().filter(|(_, arg)| arg.buffer != Handle::NONE) {
        let with = |arg: BufferArg| {
            let mut args = good.args.clone();
            args[index] = arg;
            args
        };
        for (what, wrong) in [
            ("a stale buffer", BufferArg { buffer: Handle(arg.buffer.0 ^ (1 << 24)), ..*arg }),
            ("an offset past the buffer", BufferArg { offset: u64::MAX - 255, ..*arg }),
            ("a length past the buffer", BufferArg { len: u64::MAX, ..*arg }),
            (
                "a span that ends past the buffer",
                BufferArg { offset: arg.offset + good.step, len: good.bytes, ..*arg },
            ),
            ("an argument one byte short", BufferArg { len: arg.len - 1, ..*arg }),
        ] {
            must_fail(&format!("{what} as argument {index}"), good.launch(&with(wrong), scalars))?;
        }
        if row.args[index].align > 1 {
            let wrong = BufferArg { offset: arg.offset + 1, ..*arg };
            must_fail(&format!("a misaligned argument {index}"), good.launch(&with(wrong), scalars))?;
        }
    }
    good.overlapping(row, &must_fail, scalars)
}

/// A launch that is right, to be made wrong in one place at a time.
struct Good {
    row: u32,
    problem: Problem,
    args: Vec<BufferArg>,
    scratch: BufferArg,
    semaphores: BufferArg,
    /// Bytes of each buffer, more than any argument.
    bytes: u64,
    step: u64,
}

impl Good {
    fn new(device: &Device, raw: &Raw, case: &Case, row: &Row) -> Result<Good, Failure> {
        let step = alignment(device.facts()).max(4096);
        let longest = case.slots.iter().map(|slot| slot.bytes.len() as u64).max().unwrap_or(0);
        let padding = row.args.iter().map(|arg| u64::from(arg.padding)).max().unwrap_or(0);
        let bytes = (longest + padding).next_multiple_of(step) * 2;
        let mut args = Vec::new();
        for (arg, slot) in case.args.iter().zip(&case.slots) {
            args.push(match arg {
                crate::case::Arg::Absent => BufferArg::NONE,
                _ => BufferArg { buffer: raw.alloc(bytes)?, offset: 0, len: slot.bytes.len() as u64 },
            });
        }
        let geometry =
            device.backend().geometry(case.row, device.facts(), &case.drawn.problem, &case.drawn.scalars)?;
        let side = |bytes: u64| match bytes {
            0 => Ok(BufferArg::NONE),
            bytes => raw.alloc(bytes).map(|buffer| BufferArg { buffer, offset: 0, len: bytes }),
        };
        let (scratch, semaphores) = (side(geometry.scratch_bytes)?, side(geometry.semaphore_bytes)?);
        let row = case.row as u32;
        Ok(Good { row, problem: case.drawn.problem, args, scratch, semaphores, bytes, step })
    }

    fn launch<'a>(&self, args: &'a [BufferArg], scalars: &'a [u8]) -> Launch<'a> {
        Launch {
            row: self.row,
            split: 1,
            problem: self.problem,
            args: RSlice::from_slice(args),
            scalars: RSlice::from_slice(scalars),
            scratch: self.scratch,
            semaphores: self.semaphores,
        }
    }

    /// An output over half of an input is never in order, whatever may alias.
    fn overlapping(
        &self,
        row: &Row,
        must_fail: &dyn Fn(&str, Launch<'_>) -> Result<(), Failure>,
        scalars: &[u8],
    ) -> Result<(), Failure> {
        let written = row.args.iter().position(|arg| arg.access != Access::READ);
        let read = row.args.iter().position(|arg| arg.access == Access::READ);
        let (Some(out), Some(input)) = (written, read) else { return Ok(()) };
        let (Some(source), Some(target)) = (self.args.get(input), self.args.get(out)) else { return Ok(()) };
        let step = u64::from(row.args[out].align.max(1));
        if source.buffer == Handle::NONE || source.len <= step {
            return Ok(());
        }
        let mut args = self.args.clone();
        args[out] = BufferArg { buffer: source.buffer, offset: step, len: target.len };
        must_fail("an output over part of an input", self.launch(&args, scalars))
    }
}
