//! A client whose task was blocked, so that the runtime has not yet reported the end of a connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use mcp_hyper::{Endpoint, Runtime, Stream, Tokio};

use crate::common::client::{accept, call, listen, modern};

/// Tokio, with a clock that jumps ahead.
#[derive(Clone)]
struct JumpingTokio {
    timer: Arc<dyn Timer + Send + Sync>,
    has_jumped: Arc<AtomicBool>,
}

impl JumpingTokio {
    fn jump(&self) -> Duration {
        Duration::from_secs(if self.has_jumped.load(Ordering::SeqCst) { 20 } else { 0 })
    }
}

impl Timer for JumpingTokio {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep_until(deadline - self.jump())
    }

    fn now(&self) -> Instant {
        self.timer.now() + self.jump()
    }
}

impl Runtime for JumpingTokio {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Tokio.resolve(host, port).await
    }

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
        Tokio.connect(endpoint).await
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Arc::new(self.clone())
    }
}

#[test]
fn call_after_a_pause_finds_that_its_connection_has_died() {
    let (listener, url) = smol::block_on(listen());
    let (settled, has_settled) = mpsc::channel();
    let (died, has_died) = mpsc::channel();
    let server = thread::spawn(move || {
        smol::block_on(async {
            let mut first = accept(&listener).await;
            let served = first.serve(2).await.len();
            has_settled.recv().unwrap();
            drop(first);
            died.send(()).unwrap();
            served + accept(&listener).await.serve(1).await.len()
        })
    });
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answers = tokio.block_on(async {
        let runtime = JumpingTokio { timer: Tokio.timer(), has_jumped: Arc::default() };
        let (client, driver) = modern().runtime(runtime.clone()).connect(url).unwrap();
        let driver = tokio::spawn(driver);
        let first = call(&client).await.unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        // The thread is blocked while the server closes the connection.
        settled.send(()).unwrap();
        has_died.recv().unwrap();
        runtime.has_jumped.store(true, Ordering::SeqCst);
        let second = call(&client).await.expect("the call goes over a new connection");
        client.close().await;
        driver.await.unwrap().unwrap();
        [first, second]
    });
    assert_eq!(answers, ["1", "1"]);
    assert_eq!(server.join().unwrap(), 3);
}
