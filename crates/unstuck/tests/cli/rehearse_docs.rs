//! The page on rehearsals: what is typed there says what stands there, byte by byte.

use std::os::unix::fs::symlink;

use crate::docs::{PageUpdate, blocks};
use crate::support::{Store, repository};

#[test]
fn rehearsals_say_what_the_page_says() {
    let mut update = PageUpdate::of("docs/rehearsal.md");
    let store = Store::new();
    symlink(repository().join("examples"), format!("{}/examples", store.folder())).expect("it can be linked");
    let mut count = 0;
    for (line, kind, block) in blocks(&update.text.clone()) {
        if kind == "yaml" {
            let name =
                block.lines().next().and_then(|first| first.strip_prefix("# ")).expect("it has a name");
            store.write(name, &block);
            continue;
        }
        let (command, wanted) = block.split_once('\n').expect("a command, and what it says");
        let command = command.strip_prefix("$ ").expect("a command");
        let ran = store.shell(command);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        if said != wanted && !update.replace(&format!("$ {command}\n"), wanted, &said) {
            assert_eq!(said, wanted, "line {line}: {command}\n{said}");
        }
        count += 1;
    }
    assert_eq!(count, 7, "commands were run");
}

#[test]
fn the_files_of_the_example_are_those_of_the_page() {
    let page = std::fs::read_to_string(repository().join("docs/rehearsal.md")).expect("the page is there");
    for name in ["night.yaml", "policies.yaml"] {
        let file = repository().join("examples/rehearsal").join(name);
        let text = std::fs::read_to_string(file).expect("the example is there");
        let without_comments: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let block = blocks(&page).into_iter().find(|(_, _, block)| block.starts_with(&format!("# {name}\n")));
        let (_, _, block) = block.expect("the page has it");
        assert_eq!(block.lines().skip(1).collect::<Vec<_>>(), without_comments, "{name}");
    }
}
