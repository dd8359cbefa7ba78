//! Every file of the corpus goes through its target, and so do some changes of it.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use unstuck_core::random::Random;
use unstuck_fuzz::corpus::{change, files, folders};
use unstuck_fuzz::{TARGETS, Target};

/// So many changes are tried of the files of each target.
const CHANGES: u64 = 1_500;

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(folders().expect("the corpus can be listed"), names);
    for name in names {
        assert!(
            !files(name).expect("its folder can be listed").is_empty(),
            "{name} has no file to start from"
        );
    }
}

#[test]
fn the_corpus_holds() {
    for target in TARGETS {
        for file in files(target.name).expect("its folder can be listed") {
            let bytes = fs::read(&file).expect("a file of the corpus can be read");
            let holds = catch_unwind(|| (target.check)(&bytes)).is_ok();
            assert!(holds, "{} breaks its promise with {}", target.name, replay(target, &file));
        }
    }
}

#[test]
fn changes_of_the_corpus_hold() {
    let only = std::env::var("UNSTUCK_SEED").ok().map(|seed| seed.parse().expect("UNSTUCK_SEED is a number"));
    std::thread::scope(|scope| {
        let tried: Vec<_> =
            TARGETS.iter().map(|target| scope.spawn(move || changes_hold(target, only))).collect();
        let broken: Vec<String> =
            tried.into_iter().filter_map(|tried| tried.join().expect("it ends").err()).collect();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    });
}

fn changes_hold(target: &Target, only: Option<u64>) -> Result<(), String> {
    let files = files(target.name).expect("its folder can be listed");
    let read = |file| fs::read(file).expect("a file of the corpus can be read");
    let corpus: Vec<Vec<u8>> = files.iter().map(read).collect();
    for seed in only.map_or(0..CHANGES, |seed| seed..seed + 1) {
        let mut random = Random::new(seed);
        let place = usize::try_from(random.draw()).unwrap_or(0) % corpus.len();
        let bytes = change(&corpus[place], &mut random);
        if catch_unwind(|| (target.check)(&bytes)).is_err() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crashes");
            let file = folder.join(format!("{}-seed-{seed}", target.name));
            fs::create_dir_all(&folder)
                .and_then(|()| fs::write(&file, &bytes))
                .expect("there is room for it");
            return Err(format!(
                "{} breaks its promise with UNSTUCK_SEED={seed}: a change of {}, kept as {}",
                target.name,
                files[place].display(),
                replay(target, &file)
            ));
        }
    }
    Ok(())
}

/// The file, and how to try it again.
fn replay(target: &Target, file: &Path) -> String {
    let file = file.display();
    format!("{file}; try it again with `cargo run -p unstuck-fuzz -- {} {file}`", target.name)
}
