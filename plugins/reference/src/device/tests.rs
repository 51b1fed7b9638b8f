//! The device through the traits: order, loss, latency, and what stays alive how long.

use super::*;
use crate::registry;
use cajeta_plugin_api::abi::Problem;

const PATIENCE: Duration = Duration::from_secs(20);

fn buffer(device: &ReferenceDevice, values: &[f32]) -> Arc<Memory> {
    let buffer = Arc::new(device.alloc(values.len() as u64 * 4, MemoryKind::DEVICE, true).unwrap());
    let mut queue = device.queue().unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    // SAFETY: `bytes` outlives the wait below.
    let ticket = unsafe { device.upload(&mut queue, whole(&buffer), bytes.as_ptr()) }.unwrap();
    assert_eq!(device.poll(&mut queue, ticket, PATIENCE), Ok(Poll::Ready));
    buffer
}

fn whole(buffer: &Arc<Memory>) -> BufferSpan<Memory> {
    BufferSpan { buffer: Arc::clone(buffer), offset: 0, len: buffer.len() }
}

/// `a + b` to `out`.
fn add(a: &Arc<Memory>, b: &Arc<Memory>, out: &Arc<Memory>) -> Work<Memory> {
    let row = registry::rows().iter().position(|row| row.name.as_str() == "refAddRow").unwrap();
    Work {
        row,
        split: 1,
        problem: Problem { m: 1, k: a.len() / 4, ..Problem::default() },
        args: [a, b, out].map(|buffer| Some(whole(buffer))).into(),
        scalars: Vec::new(),
        scratch: None,
        semaphores: None,
    }
}

fn read(device: &ReferenceDevice, queue: &mut ReferenceQueue, buffer: &Arc<Memory>) -> Vec<f32> {
    let mut bytes = vec![0u8; buffer.len() as usize];
    // SAFETY: `bytes` outlives the wait below and nothing else uses it.
    let ticket = unsafe { device.download(queue, whole(buffer), bytes.as_mut_ptr()) }.unwrap();
    assert_eq!(device.poll(queue, ticket, PATIENCE), Ok(Poll::Ready));
    bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

#[test]
fn launches_see_what_earlier_ones_wrote_in_place_too() {
    let device = ReferenceDevice::with(Settings::default()).unwrap();
    let (a, b) = (buffer(&device, &[1.0, 2.0]), buffer(&device, &[10.0, 20.0]));
    let list = Arc::new(device.list(vec![add(&a, &b, &a), add(&a, &a, &b)]).unwrap());
    let mut queue = device.queue().unwrap();
    let ticket = device.submit(&mut queue, &list, true).unwrap();
    assert_eq!(read(&device, &mut queue, &b), [22.0, 44.0]);
    assert_eq!(read(&device, &mut queue, &a), [11.0, 22.0]);
    let spans = device.spans(&mut queue, ticket).unwrap();
    assert_eq!(spans.len(), 2);
    assert!(spans[1].start_ns >= spans[0].start_ns + spans[0].duration_ns);
}

#[test]
fn loss_is_told_by_row_to_every_queue_and_drops_still_return() {
    let device = ReferenceDevice::with(Settings { lose_after: Some(1), ..Settings::default() }).unwrap();
    let (a, b) = (buffer(&device, &[1.0]), buffer(&device, &[2.0]));
    let list = Arc::new(device.list(vec![add(&a, &b, &b)]).unwrap());
    let (mut queue, mut other) = (device.queue().unwrap(), device.queue().unwrap());
    let first = device.submit(&mut queue, &list, false).unwrap();
    let second = device.submit(&mut queue, &list, false).unwrap();
    assert_eq!(device.poll(&mut queue, first, PATIENCE), Ok(Poll::Ready));
    let fault = device.poll(&mut queue, second, PATIENCE).unwrap_err();
    assert!(fault.text.contains("refAddRow"), "{fault}");
    assert_eq!(device.submit(&mut queue, &list, false), Err(fault.clone()));
    let there = device.submit(&mut other, &list, false).unwrap();
    assert_eq!(device.poll(&mut other, there, PATIENCE), Err(fault));
    drop((queue, other, list, device));
}

#[test]
fn a_late_device_is_pending_first_and_complete_once_its_queue_is_dropped() {
    let settings = Settings { latency: Duration::from_millis(30), ..Settings::default() };
    let device = ReferenceDevice::with(settings).unwrap();
    let (a, b) = (buffer(&device, &[1.0]), buffer(&device, &[2.0]));
    let list = Arc::new(device.list(vec![add(&a, &b, &a)]).unwrap());
    let mut queue = device.queue().unwrap();
    let ticket = device.submit(&mut queue, &list, false).unwrap();
    assert_eq!(device.poll(&mut queue, ticket, Duration::ZERO), Ok(Poll::Pending));
    // Freed under running work: the memory goes when the work has ended.
    drop((list, b));
    assert_eq!(device.mem_info().map(|info| info.total - info.free), Ok(8));
    drop(queue);
    assert_eq!(device.mem_info().map(|info| info.total - info.free), Ok(4));
    assert_eq!(read(&device, &mut device.queue().unwrap(), &a), [3.0]);
}

#[test]
fn a_short_argument_is_refused_when_the_list_is_prepared() {
    let device = ReferenceDevice::with(Settings::default()).unwrap();
    let logits = buffer(&device, &[1.0, 2.0]);
    let mut launch = add(&logits, &logits, &logits);
    launch.args[0] = Some(BufferSpan { buffer: Arc::clone(&logits), offset: 0, len: 4 });
    let fault = device.list(vec![launch]).map(|_| ()).unwrap_err();
    assert!(fault.text.contains("refAddRow") && fault.text.contains("needs 8 bytes"), "{fault}");
}
