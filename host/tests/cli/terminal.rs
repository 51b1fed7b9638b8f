//! A person at a terminal: the program on a pseudo-terminal, typed at and read from.

use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pty_process::blocking::Pty;

/// Patience with a program that should have said something.
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal with the program on it.
pub(crate) struct Terminal {
    child: Child,
    keyboard: Arc<Pty>,
    screen: Arc<Screen>,
    /// Bytes of the screen that were waited for already.
    read: usize,
}

#[derive(Default)]
struct Screen {
    /// Everything shown so far, and whether there is no more.
    shown: Mutex<(Vec<u8>, bool)>,
    changed: Condvar,
}

impl Terminal {
    /// Starts a program at a terminal that says it can show colours.
    pub(crate) fn start(program: &Command) -> Terminal {
        Terminal::start_with(program, |command| command)
    }

    /// Starts it with some of its streams elsewhere.
    pub(crate) fn start_with(
        program: &Command,
        adapt: impl FnOnce(pty_process::blocking::Command) -> pty_process::blocking::Command,
    ) -> Terminal {
        let (pty, pts) = pty_process::blocking::open().expect("a pseudo-terminal");
        pty.resize(pty_process::Size::new(40, 100)).expect("a size");
        let mut command = pty_process::blocking::Command::new(program.get_program()).args(program.get_args());
        command = command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("CLICOLOR");
        for (name, value) in program.get_envs() {
            command = match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = adapt(command).spawn(pts).expect("the program starts");
        let keyboard = Arc::new(pty);
        let screen = Arc::new(Screen::default());
        let (from, to) = (Arc::clone(&keyboard), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal that nobody holds any more answers with an error.
            while let Ok(count @ 1..) = (&*from).read(&mut bytes) {
                to.shown.lock().expect("shown").0.extend_from_slice(&bytes[..count]);
                to.changed.notify_all();
            }
            to.shown.lock().expect("shown").1 = true;
            to.changed.notify_all();
        });
        Terminal { child, keyboard, screen, read: 0 }
    }

    /// Types, as a keyboard does: Enter is a carriage return.
    pub(crate) fn press(&self, keys: &str) {
        (&*self.keyboard).write_all(keys.as_bytes()).expect("typed");
    }

    /// Whether the terminal shows what is typed and gathers lines by itself, as shells want it.
    pub(crate) fn is_plain(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&*self.keyboard).expect("modes").local_modes;
        modes.contains(rustix::termios::LocalModes::ICANON | rustix::termios::LocalModes::ECHO)
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits until `text` is shown after what was waited for before; what was shown up to its end.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let started = Instant::now();
        let mut shown = self.screen.shown.lock().expect("shown");
        loop {
            let new = &shown.0[self.read..];
            if let Some(at) = new.windows(text.len()).position(|part| part == text.as_bytes()) {
                let end = at + text.len();
                let seen = String::from_utf8_lossy(&new[..end]).into_owned();
                self.read += end;
                return seen;
            }
            if shown.1 || started.elapsed() > LIMIT {
                let all = String::from_utf8_lossy(&shown.0).into_owned();
                drop(shown);
                panic!("{text:?} was not shown; this was: {all:?}");
            }
            shown = self.screen.changed.wait_timeout(shown, Duration::from_millis(200)).expect("shown").0;
        }
    }

    /// Waits for the program's end: its exit status, and all that was shown.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waited for") {
                let mut shown = self.screen.shown.lock().expect("shown");
                while !shown.1 && started.elapsed() < LIMIT {
                    shown = self.screen.changed.wait_timeout(shown, LIMIT).expect("shown").0;
                }
                return (status.code(), String::from_utf8_lossy(&shown.0).into_owned());
            }
            if started.elapsed() > LIMIT {
                let shown = self.screen.shown.lock().expect("shown").0.clone();
                panic!("the program does not end; this was shown: {:?}", String::from_utf8_lossy(&shown));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Of no use after the end; a failed test must not leave a program behind.
        let _ = self.child.kill();
    }
}
