//! The connections that give way when all are in use.

use super::*;

#[tokio::test]
async fn idle_connections_give_way_and_busy_ones_do_not() {
    let (address, gate) = start(Limits { connections: 3, ..LIMITS }).await;
    let mut busy = send(address, get("/wait")).await;
    gate.waits.notified().await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut dripping = send(address, "GET / HT").await;
    for _ in 0..10 {
        assert!(is_served(address).await);
    }
    assert!(ends(&mut silent).await && ends(&mut dripping).await);
    gate.go.notify_waiters();
    assert!(read_until(&mut busy, "hello").await.ends_with("hello"));
}

#[tokio::test]
async fn a_connection_with_an_unattended_answer_gives_way() {
    let (address, _) = start(Limits { connections: 1, ..LIMITS }).await;
    let mut unattended = send(address, get("/unattended")).await;
    assert_eq!(status(&mut unattended).await.as_deref(), Some("200"));
    assert!(is_served(address).await);
    assert!(ends(&mut unattended).await);
}

#[tokio::test]
async fn a_connection_that_takes_no_answer_gives_way() {
    let (address, _) = start(Limits { connections: 1, ..LIMITS }).await;
    // The client's window for answers is zero.
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let request = frame(1, 5, 1, b"\x82\x86\x04\x06/ready\x41\x01a");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let mut greedy = send(address, [preface, &settings, &request].concat()).await;
    let mut answered = false;
    while !answered {
        let mut head = [0; 9];
        greedy.read_exact(&mut head).await.unwrap();
        answered = head[3] == 1;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        greedy.read_exact(&mut vec![0; length as usize]).await.unwrap();
    }
    assert!(is_served(address).await);
    assert!(ends(&mut greedy).await);
}

#[tokio::test]
async fn a_connection_too_many_is_turned_away_when_all_are_busy() {
    let (address, gate) = start(Limits { connections: 1, ..LIMITS }).await;
    let mut busy = send(address, get("/wait")).await;
    gate.waits.notified().await;
    let mut second = send(address, get("/")).await;
    assert!(ends(&mut second).await);
    gate.go.notify_waiters();
    assert!(read_until(&mut busy, "hello").await.ends_with("hello"));
}

#[tokio::test]
async fn refusals_beyond_a_thousand_come_no_faster_than_their_rate() {
    let (address, _) = start(LIMITS).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    for _ in 0..1_102 {
        stream.write_all(get("/refused").as_bytes()).await.unwrap();
        assert!(read_until(&mut stream, "hello").await.ends_with("hello"));
    }
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
    assert!(is_served(address).await);
}
