//! The way to a CQL node, which can be cut.

use tokio::{
    io::{copy, copy_bidirectional, sink},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The fate of connections on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// They pass.
    Open,
    /// They are closed, new ones too.
    Closed,
    /// Their bytes vanish, as behind a broken link; connections of that time stay silent for good.
    Silent,
}

/// A way to a node, at an address of its own.
pub(crate) struct Way {
    pub(crate) address: String,
    passage: watch::Sender<Passage>,
}

impl Way {
    /// An open way to `node`.
    pub(crate) async fn to(node: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (passage, is) = watch::channel(Passage::Open);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, node.clone(), is.clone()));
            }
        });
        Self { address, passage }
    }

    /// Lets connections pass, or cuts the way.
    pub(crate) fn set(&self, passage: Passage) {
        self.passage.send_replace(passage);
    }
}

async fn pass(mut client: TcpStream, node: String, mut passage: watch::Receiver<Passage>) {
    let passing = async {
        let mut server = TcpStream::connect(&node).await?;
        copy_bidirectional(&mut client, &mut server).await
    };
    let cut = tokio::select! {
        biased;
        cut = passage.wait_for(|passage| *passage != Passage::Open) => cut.map_or(Passage::Closed, |cut| *cut),
        _ = passing => Passage::Closed,
    };
    if cut == Passage::Silent {
        let _ended = copy(&mut client, &mut sink()).await;
    }
}
