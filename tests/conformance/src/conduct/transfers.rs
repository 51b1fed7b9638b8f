//! Memory and copies, without any kernel.

use std::sync::Arc;

use cajeta_abi::{Capability, MemoryKind};
use cajeta_plugin_host::Device;

use super::broken;
use crate::execute::Failure;
use crate::random::Random;

pub(super) fn poison(device: &Device, _seed: u64) -> Result<(), Failure> {
    let mut queue = device.queue()?;
    for kind in [MemoryKind::DEVICE, MemoryKind::STAGING] {
        for bytes in [1u64, 255, 4096, 100_003] {
            let buffer = match device.alloc(bytes, kind, true) {
                Err(error) if error.is_unsupported() && kind == MemoryKind::STAGING => continue,
                other => other?,
            };
            let mut got = vec![0u8; bytes as usize];
            queue.download(&buffer.whole(), &mut got)?;
            if let Some(at) = got.iter().position(|&byte| byte != 0xFF) {
                return Err(broken(format!("byte {at} of {bytes} poisoned bytes is {:#04x}", got[at])));
            }
        }
    }
    Ok(())
}

pub(super) fn round_trip(device: &Device, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed, "round trip", 0);
    let mut queue = device.queue()?;
    let buffer = device.alloc(1 << 16, MemoryKind::DEVICE, true)?;
    let mut mirror = vec![0xFFu8; 1 << 16];
    for _ in 0..40 {
        let offset = random.below(1 << 16);
        let len = random.below((1 << 16) - offset).min(if random.chance(50) { 9 } else { u64::MAX });
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        queue.upload(&buffer.span(offset, len)?, &bytes)?;
        mirror[offset as usize..(offset + len) as usize].copy_from_slice(&bytes);
    }
    let mut got = vec![0u8; 1 << 16];
    queue.download(&buffer.whole(), &mut got)?;
    match got.iter().zip(&mirror).position(|(got, wanted)| got != wanted) {
        Some(at) => Err(broken(format!("byte {at} is {:#04x}, {:#04x} was written", got[at], mirror[at]))),
        None => Ok(()),
    }
}

pub(super) fn order(device: &Device, _seed: u64) -> Result<(), Failure> {
    let mut queue = device.queue()?;
    let buffer = device.alloc(4096, MemoryKind::DEVICE, true)?;
    let mut tickets = Vec::new();
    for turn in 0..32u8 {
        queue.upload_owned(&buffer.whole(), vec![turn; 4096])?;
        tickets.push(queue.download_later(&buffer.whole())?);
    }
    for (turn, ticket) in (0u8..).zip(tickets) {
        let got = queue.take(ticket)?;
        if got.iter().any(|&byte| byte != turn) {
            return Err(broken(format!("download {turn} sees what another upload wrote")));
        }
    }
    Ok(())
}

pub(super) fn import(device: &Device, _seed: u64) -> Result<(), Failure> {
    if !device.supports(Capability::IMPORT)? {
        return Err(Failure::Unsupported("the device does not import host pages".to_owned()));
    }
    let pages = memmap2::MmapMut::map_anon(3 * 4096).and_then(|mut pages| {
        pages.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
        pages.make_read_only()
    });
    let pages = pages.map_err(|error| broken(format!("the host has no pages to import: {error}")))?;
    let buffer = device.import(Arc::new(pages))?;
    let mut got = vec![0u8; 3 * 4096];
    device.queue()?.download(&buffer.whole(), &mut got)?;
    match got.iter().enumerate().position(|(at, &byte)| byte != at as u8) {
        Some(at) => Err(broken(format!("byte {at} of imported pages reads as {:#04x}", got[at]))),
        None => Ok(()),
    }
}
