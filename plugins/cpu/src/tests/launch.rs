//! One launch under test: buffers with canaries behind each operand, run on the
//! device and by the oracle.

use std::sync::Arc;
use std::time::Duration;

use cajeta_plugin_api::abi::{Access, DtypeId, MemoryKind, Problem, Row};
use cajeta_plugin_api::catalog::oracle::OracleBuf;
use cajeta_plugin_api::catalog::oracle::compose::Composition;
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::{Answer, Backend, BufferSpan, Device, Work};

use crate::{Buffer, CpuBackend, CpuDevice};

const CANARY: usize = 96;

/// A small deterministic generator.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// In -1..1.
    pub(super) fn unit(&mut self) -> f32 {
        self.word() as f32 / (1u32 << 30) as f32 - 1.0
    }

    pub(super) fn floats(&mut self, len: usize) -> Vec<u8> {
        (0..len).flat_map(|_| self.unit().to_le_bytes()).collect()
    }

    /// Rows of a format with every block's scales small enough to sum.
    pub(super) fn weight(&mut self, format: Format, values: usize) -> Vec<u8> {
        let blocks = values / format.block_len();
        let half = |value: f32| half::f16::from_f32(value).to_le_bytes();
        let mut bytes = Vec::new();
        for _ in 0..blocks {
            let at = bytes.len();
            bytes.extend((0..format.block_bytes()).map(|_| self.word() as u8));
            let block = &mut bytes[at..];
            match format {
                Format::F32 => block.copy_from_slice(&self.unit().to_le_bytes()),
                Format::F16 => block.copy_from_slice(&half(self.unit())),
                Format::BF16 => block.copy_from_slice(&half::bf16::from_f32(self.unit()).to_le_bytes()),
                // A power of two from 2^-8 to 2^-1.
                Format::MXFP4 => block[0] = 119 + (self.word() % 8) as u8,
                _ => {
                    let (steps, places) = scales(format);
                    for (&at, factor) in places.iter().zip([1.0, 8.0]) {
                        block[at..at + 2].copy_from_slice(&half(self.unit() / steps * factor));
                    }
                }
            }
        }
        bytes
    }
}

/// About the largest quant times sub-block scale of a format, and where its
/// blocks have their scale and, if any, their minimum.
fn scales(format: Format) -> (f32, &'static [usize]) {
    match format {
        Format::Q8_0 | Format::IQ4_NL => (127.0, &[0]),
        Format::Q4_0 | Format::Q5_0 => (16.0, &[0]),
        Format::Q4_1 | Format::Q5_1 => (31.0, &[0, 2]),
        Format::Q2_K => (45.0, &[80, 82]),
        Format::Q3_K => (128.0, &[108]),
        Format::Q4_K => (1000.0, &[0, 2]),
        Format::Q5_K => (2000.0, &[0, 2]),
        Format::Q6_K => (4000.0, &[208]),
        Format::IQ4_XS => (4000.0, &[0]),
        _ => panic!("{format} has no kernels here"),
    }
}

/// A launch of one row with its operands' contents.
pub(super) struct Launch {
    pub(super) row: usize,
    pub(super) problem: Problem,
    pub(super) scalars: Vec<u8>,
    /// Contents of each argument; `None` where an optional one is absent.
    pub(super) args: Vec<Option<Vec<u8>>>,
    pub(super) attrs: Option<Vec<u64>>,
}

/// Rows of a name prefix that this machine can run.
pub(super) fn rows(wanted: impl Fn(&Row) -> bool) -> Vec<usize> {
    let usable =
        |row: &Row| row.needs.iter().all(|need| CpuBackend::supports(0, need.capability) == Ok(true));
    let rows = CpuBackend::rows().iter().enumerate();
    rows.filter(|(_, row)| usable(row) && wanted(row)).map(|(index, _)| index).collect()
}

pub(super) fn name(row: usize) -> &'static str {
    CpuBackend::rows()[row].name.as_str()
}

impl Launch {
    /// The arguments after the launch, as the device leaves them. Fails if a
    /// canary died or memory that is only read changed.
    pub(super) fn on_device(&self, device: &CpuDevice, poison_rest: bool) -> Answer<Vec<Option<Vec<u8>>>> {
        let row = &CpuBackend::rows()[self.row];
        let facts = CpuBackend::devices()?[0];
        let geometry = CpuBackend::geometry(self.row, &facts, &self.problem, &self.scalars)?;
        let buffer = |bytes: &[u8]| -> Answer<Arc<Buffer>> {
            let buffer = device.alloc((bytes.len() + 2 * CANARY) as u64, MemoryKind::DEVICE, true)?;
            // SAFETY: the buffer is as long as both canaries and the bytes.
            unsafe { buffer.start().add(CANARY).copy_from(bytes.as_ptr(), bytes.len()) };
            Ok(Arc::new(buffer))
        };
        let span = |bytes: &[u8]| -> Answer<BufferSpan<Buffer>> {
            Ok(BufferSpan { buffer: buffer(bytes)?, offset: CANARY as u64, len: bytes.len() as u64 })
        };
        let args = self.args.iter().map(|arg| arg.as_deref().map(&span).transpose());
        let args: Answer<Vec<Option<BufferSpan<Buffer>>>> = args.collect();
        let args = args?;
        let scratch = vec![if poison_rest { 0xff } else { 0u8 }; geometry.scratch_bytes as usize];
        let work = Work {
            row: self.row,
            split: 1,
            problem: self.problem,
            args: args.clone(),
            scalars: self.scalars.clone(),
            scratch: if scratch.is_empty() { None } else { Some(span(&scratch)?) },
            semaphores: None,
        };
        let list = Arc::new(device.list(vec![work])?);
        let mut queue = device.queue()?;
        let ticket = device.submit(&mut queue, &list, false)?;
        device.poll(&mut queue, ticket, Duration::MAX)?;
        let after = |span: &BufferSpan<Buffer>| -> Vec<u8> {
            // SAFETY: nothing else touches the buffer; it is `len` bytes long.
            unsafe { std::slice::from_raw_parts(span.buffer.start(), span.buffer.len() as usize).to_vec() }
        };
        let mut results = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            results.push(arg.as_ref().map(|arg| {
                let bytes = after(arg);
                let inner = bytes[CANARY..bytes.len() - CANARY].to_vec();
                let canaries = bytes[..CANARY].iter().chain(&bytes[bytes.len() - CANARY..]);
                assert!(canaries.clone().all(|&byte| byte == 0xff), "{}: argument {index} overrun", row.name);
                if row.args[index].access == Access::READ {
                    assert_eq!(Some(&inner), self.args[index].as_ref(), "{}: {index} changed", row.name);
                }
                inner
            }));
        }
        Ok(results)
    }

    /// The arguments after the launch, by the oracle.
    pub(super) fn by_oracle(&self) -> Vec<Option<Vec<u8>>> {
        let row = &CpuBackend::rows()[self.row];
        let present = |arg: usize| self.args[arg].is_some();
        let composition =
            Composition::of(row, &self.problem, &self.scalars, self.attrs.as_deref(), &present).unwrap();
        let mut memory = self.args.clone();
        let mut buffers: Vec<OracleBuf<'_>> = memory
            .iter_mut()
            .zip(row.args.iter())
            .map(|(bytes, spec)| {
                let Some(bytes) = bytes else { return OracleBuf::Absent };
                if spec.access != Access::READ {
                    return OracleBuf::Out(bytes);
                }
                match Format::from_id(spec.format.0) {
                    Some(format) if spec.dtype == DtypeId::BYTES => OracleBuf::Weight(format, bytes),
                    _ => OracleBuf::Plain(bytes),
                }
            })
            .collect();
        composition.run(&mut buffers).unwrap();
        memory
    }

    /// Holds the device against the oracle: every written f32 within `tolerance`
    /// times the largest value of its argument.
    pub(super) fn agree(&self, device: &CpuDevice, tolerance: f32) {
        let expected = self.by_oracle();
        let got = self.on_device(device, true).unwrap_or_else(|fault| panic!("{fault}"));
        let row = &CpuBackend::rows()[self.row];
        for (index, (expected, got)) in expected.iter().zip(&got).enumerate() {
            if row.args[index].access == Access::READ {
                continue;
            }
            let what = format!("{}, argument {index}, {:?}", row.name, self.problem);
            let (Some(expected), Some(got)) = (expected, got) else { continue };
            close(expected, got, row.args[index].dtype, tolerance, &what);
        }
    }
}

fn close(expected: &[u8], got: &[u8], dtype: cajeta_plugin_api::abi::DtypeId, tolerance: f32, what: &str) {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        if dtype == DtypeId::F16 {
            bytes.as_chunks::<2>().0.iter().map(|&b| half::f16::from_le_bytes(b).to_f32()).collect()
        } else {
            bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
        }
    };
    if dtype != DtypeId::F32 && dtype != DtypeId::F16 {
        assert_eq!(expected, got, "{what}");
        return;
    }
    let (expected, got) = (floats(expected), floats(got));
    // One output alone may be what is left where large terms cancel.
    let largest = expected.iter().filter(|v| v.is_finite()).fold(1e-2f32, |top, v| top.max(v.abs()));
    let slack = if dtype == DtypeId::F16 { 1.0 / 1024.0 } else { tolerance };
    for (at, (e, g)) in expected.iter().zip(&got).enumerate() {
        let same = (e.is_nan() && g.is_nan()) || (e - g).abs() <= slack * largest;
        assert!(same, "{what}: value {at} is {g}, expected {e} (largest {largest})");
    }
}
