//! Rows that a crash undoes although their log keeps its entries. The next start writes them again.

use std::time::Duration;

use super::{
    judge,
    stored::pending_work,
    world::World,
    world_store::{StoreKind, WorldStore},
};
use crate::{store::schema, tests::faulty::Fault};

/// The end of the process, for the store and for the world.
fn lose_power(world: &mut World) {
    world.stop();
    world.process.end();
    world.store.end(Fault::PowerLoss, None, &world.clock.clone());
}

async fn lost_rows_are_written_again(store: StoreKind) {
    let mut world = World::base(store).await;
    let mut lost = 0;
    for round in 0..8 {
        // The first of these appends may find a flush due.
        for number in 0..3 {
            world.ingest_thesis(&format!("{round}-{number}")).await;
        }
        if round % 2 == 0 {
            world.idle().await;
        }
        lose_power(&mut world);
        let pending = pending_work(&*world.store.rows().await, false);
        lost += usize::from(pending.contains("rows of live at"));
        // The start ends only when every row is written.
        drop(world.core().await);
        world.idle().await;
        let pending = pending_work(&*world.store.rows().await, false);
        assert!(!pending.contains("rows of live at"), "{pending}");
    }
    assert!(lost > 0, "no row was lost");
    judge(&mut world).await;
    world.stop();
}

#[tokio::test(start_paused = true)]
async fn rows_that_the_embedded_store_lost_are_written_again() {
    lost_rows_are_written_again(StoreKind::Embedded).await;
}

#[tokio::test(start_paused = true)]
async fn rows_that_a_store_with_one_writer_lost_are_written_again() {
    lost_rows_are_written_again(StoreKind::Exclusive).await;
}

/// A writer removes its mark when all its work is done. From then on no row of its log can be lost: nothing would write
/// it again.
#[tokio::test(start_paused = true)]
async fn no_row_is_lost_once_the_mark_of_its_log_is_gone() {
    let mut world = World::base(StoreKind::Exclusive).await;
    let WorldStore::Memory(store) = world.store.clone() else { panic!("no store in memory") };
    store.need_sync();
    world.ingest_thesis("marked").await;
    let is_marked = || {
        let mut marked = false;
        store.each(&schema::UNFINISHED, |_, clustering, _| marked |= clustering[0].text() == "live");
        marked
    };
    assert!(is_marked());
    for _ in 0..5_000 {
        if is_marked() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert!(!is_marked(), "a writer at rest keeps its mark");
    lose_power(&mut world);
    let pending = pending_work(&*world.store.rows().await, true);
    assert!(!pending.contains("of live at"), "{pending}");
    judge(&mut world).await;
    world.stop();
}
