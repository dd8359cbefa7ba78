//! Resume policies by themselves: their priority, what they match, how long they wait, and what is refused.

use std::sync::Arc;

use unstuck_core::event::Actor;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::policy::{
    Criteria, DraftBackOff, ErrorToMatch, Policies, PoliciesPaused, PoliciesUnpaused, Policy,
    PolicyAuditKind, PolicyCommand, PolicyDraft, PolicyOutcome, PolicyProblem, PolicySwitch, PolicyVerdict,
    ResumePacer, ShadowedPolicy, SwitchState, apply_command,
};
use unstuck_core::random::Random;
use unstuck_core::time::{Millis, Time};

/// Criteria: substring, flow, action, type.
fn criteria(text: &str, flow: &str, action: &str, kind: &str) -> Criteria {
    let given = |text: &str| (!text.is_empty()).then(|| Arc::from(text));
    Criteria {
        error_substring: given(text),
        flow: given(flow),
        action: given(action),
        action_type: given(kind),
    }
}

fn draft(name: &str, criteria: Criteria) -> PolicyDraft {
    PolicyDraft {
        name: Some(name.into()),
        criteria,
        max_attempts: Some(10),
        back_off: Some(DraftBackOff { delay: Some(60_000), ..DraftBackOff::default() }),
        ..PolicyDraft::default()
    }
}

fn policy(name: &str, criteria: Criteria, change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = draft(name, criteria).check(&format!("id-{name}").into(), 0).expect("a good policy");
    change(&mut policy);
    policy
}

fn failure(cause: &str) -> ErrorToMatch<'_> {
    let action_type = Some("TRANSFORM");
    ErrorToMatch {
        cause,
        root_flow: "smoke",
        action: "smoke.Format",
        found_by: None,
        action_type,
        fatal: false,
        rounds: 1,
    }
}

#[test]
fn the_more_specific_the_higher_the_priority() {
    for text in ["", "0123456789", "0123456789a", "äöüäöüäöüäö"] {
        for flow in ["", "smoke"] {
            for action in ["", "smoke.Format"] {
                for kind in ["", "TRANSFORM"] {
                    let wanted = match text.chars().count() {
                        0 => 0,
                        1..11 => 50,
                        _ => 100,
                    } + match (action, kind) {
                        ("", "") => 0,
                        ("", _) => 50,
                        (_, _) => 100,
                    } + if flow.is_empty() { 0 } else { 50 };
                    let criteria = criteria(text, flow, action, kind);
                    assert_eq!(criteria.priority(), wanted, "{criteria:?}");
                }
            }
        }
    }
}

#[test]
fn a_given_priority_stays_and_another_is_calculated() {
    let calculated = policy("a", criteria("", "smoke", "", ""), |_| {});
    assert_eq!((calculated.priority, calculated.is_priority_set), (50, false));
    let set = PolicyDraft { priority: Some(7), ..draft("b", criteria("", "smoke", "", "")) };
    let set = set.check(&"x".into(), 0).expect("good");
    assert_eq!((set.priority, set.is_priority_set), (7, true));
}

#[test]
fn what_a_policy_says_to_an_error() {
    use PolicyVerdict::{Passes, Spent, Takes};
    let change = |change: fn(&mut Policy)| change;
    let none = || change(|_| {});
    let cause = "com.x.JsonException: line 3";
    // Its criteria, a change of it, the fatal flag and the rounds of the error, what it says.
    let cases = [
        (criteria("JsonException", "", "", ""), none(), false, 1, Takes),
        (criteria("jsonexception", "", "", ""), none(), false, 1, Passes),
        (criteria("line 4", "", "", ""), none(), false, 1, Passes),
        (criteria("", "smoke", "", ""), none(), false, 1, Takes),
        (criteria("", "smok", "", ""), none(), false, 1, Passes),
        (criteria("", "", "smoke.Format", ""), none(), false, 1, Takes),
        (criteria("", "", "smoke.Forma", ""), none(), false, 1, Passes),
        (criteria("", "", "", "TRANSFORM"), none(), false, 1, Takes),
        (criteria("", "", "", "transform"), none(), false, 1, Passes),
        (criteria("Json", "smoke", "smoke.Format", "TRANSFORM"), none(), false, 1, Takes),
        (criteria("Json", "other", "smoke.Format", "TRANSFORM"), none(), false, 1, Passes),
        // Rounds below maxAttempts.
        (criteria("Json", "", "", ""), none(), false, 9, Takes),
        (criteria("Json", "", "", ""), none(), false, 10, Spent),
        (criteria("Json", "", "", ""), none(), false, 11, Spent),
        (criteria("Xml", "", "", ""), none(), false, 10, Passes),
        // Fatal ones, and policies that are off.
        (criteria("Json", "", "", ""), none(), true, 1, Passes),
        (criteria("Json", "", "", ""), change(|policy| policy.include_fatal = true), true, 1, Takes),
        (criteria("Json", "", "", ""), change(|policy| policy.include_fatal = true), false, 1, Takes),
        (criteria("Json", "", "", ""), change(|policy| policy.enabled = false), false, 1, Passes),
    ];
    for (criteria, change, fatal, rounds, wanted) in cases {
        let policy = policy("p", criteria, change);
        let failure = ErrorToMatch { fatal, rounds, ..failure(cause) };
        assert_eq!(policy.judge(&failure), wanted, "{policy:?} {failure:?}");
    }
    let untyped = ErrorToMatch { action_type: None, ..failure(cause) };
    assert_eq!(policy("p", criteria("", "", "", "TRANSFORM"), |_| {}).judge(&untyped), Passes);
}

#[test]
fn the_first_that_takes_it_applies_and_a_spent_one_falls_through() {
    let all = |max: [u32; 3], priority: [i32; 3], enabled: [bool; 3]| {
        let one = |place: usize, name: &str, criteria: Criteria| {
            policy(name, criteria, |policy| {
                policy.max_attempts = max[place];
                policy.priority = priority[place];
                policy.enabled = enabled[place];
                policy.age = place as u64;
            })
        };
        let policies = vec![
            one(0, "text", criteria("reset", "", "", "")),
            one(1, "flow", criteria("", "smoke", "", "")),
            one(2, "action", criteria("", "", "smoke.Format", "")),
        ];
        Policies::new(policies).expect("they do not collide")
    };
    let on = [true; 3];
    // Budgets, priorities, which are on, the rounds, who takes it, who is spent before.
    let cases = [
        ([5, 5, 5], [1, 2, 3], on, 1, Some("action"), vec![]),
        ([5, 5, 5], [3, 2, 1], on, 1, Some("text"), vec![]),
        ([5, 5, 5], [2, 2, 2], on, 1, Some("text"), vec![]),
        ([2, 5, 9], [3, 2, 1], on, 2, Some("flow"), vec!["text"]),
        ([2, 5, 9], [3, 2, 1], on, 5, Some("action"), vec!["text", "flow"]),
        ([2, 5, 9], [3, 2, 1], on, 9, None, vec!["text", "flow", "action"]),
        ([5, 5, 5], [3, 2, 1], [false, true, true], 1, Some("flow"), vec![]),
        ([5, 5, 5], [3, 2, 1], [false; 3], 1, None, vec![]),
    ];
    for (max, priority, enabled, rounds, wanted, spent) in cases {
        let policies = all(max, priority, enabled);
        let failure = ErrorToMatch { rounds, ..failure("connection reset") };
        let found = policies.find(&failure).map(|policy| &*policy.name);
        assert_eq!(found, wanted, "{max:?} {priority:?} {enabled:?} {rounds}");
        let before: Vec<&str> =
            policies.exhausted(&failure).into_iter().map(|policy| &*policy.name).collect();
        assert_eq!(before, spent, "{max:?} {priority:?} {enabled:?} {rounds}");
    }
}

#[test]
fn delays_are_fixed_linear_capped_or_drawn_and_saturate() {
    let seconds = |n| Millis::seconds(n);
    let fixed = BackOff::fixed(seconds(100));
    let linear = BackOff { multiplier: Some(2.0), ..fixed };
    let capped = BackOff { max_delay: Some(seconds(500)), ..linear };
    let cases = [
        (fixed, 1, seconds(100)),
        (fixed, 7, seconds(100)),
        (linear, 3, seconds(600)),
        (capped, 1, seconds(200)),
        (capped, 2, seconds(400)),
        (capped, 3, seconds(500)),
        (BackOff { delay: Millis(u64::MAX), ..linear }, 9, Millis(u64::MAX)),
    ];
    for (back_off, rounds, wanted) in cases {
        let policy = policy("p", criteria("x", "", "", ""), |policy| policy.back_off = back_off);
        assert_eq!(policy.delay(rounds, &mut Random::new(1)), wanted, "{back_off:?} {rounds}");
    }
    let drawn = BackOff { max_delay: Some(seconds(120)), random: true, ..BackOff::fixed(seconds(60)) };
    let policy = policy("p", criteria("x", "", "", ""), |policy| policy.back_off = drawn);
    let delays: Vec<Millis> = (0..1_000).map(|seed| policy.delay(1, &mut Random::new(seed))).collect();
    assert!(delays.iter().all(|delay| (seconds(60)..=seconds(120)).contains(delay)));
    assert!(
        delays.iter().any(|delay| *delay < seconds(70)) && delays.iter().any(|delay| *delay > seconds(110))
    );
}

#[test]
fn each_refusal_has_a_message_of_its_own() {
    let good = || draft("p", criteria("reset", "", "", ""));
    let back_off = |change: fn(&mut DraftBackOff)| {
        let mut back_off = DraftBackOff { delay: Some(60_000), ..DraftBackOff::default() };
        change(&mut back_off);
        PolicyDraft { back_off: Some(back_off), ..good() }
    };
    let cases = [
        (PolicyDraft { name: None, ..good() }, "name", "the policy has no name"),
        (PolicyDraft { name: Some("  ".into()), ..good() }, "name", "the policy has no name"),
        (
            PolicyDraft { criteria: criteria(" ", "", "", ""), ..good() },
            "errorSubstring",
            "the policy would match every error",
        ),
        (PolicyDraft { max_attempts: None, ..good() }, "maxAttempts", "the policy has no `maxAttempts`"),
        (
            PolicyDraft { max_attempts: Some(1), ..good() },
            "maxAttempts",
            "`maxAttempts` is 1; below 2 the policy would never resume anything",
        ),
        (
            PolicyDraft { max_attempts: Some(-1), ..good() },
            "maxAttempts",
            "`maxAttempts` is -1; below 2 the policy would never resume anything",
        ),
        (PolicyDraft { back_off: None, ..good() }, "backOff", "the policy has no `backOff`"),
        (back_off(|back_off| back_off.delay = None), "backOff.delay", "`backOff` has no `delay`"),
        (back_off(|back_off| back_off.delay = Some(-1)), "backOff.delay", "`backOff.delay` is negative"),
        (back_off(|back_off| back_off.random = true), "backOff.maxDelay", "`random` needs a `maxDelay`"),
        (
            back_off(|back_off| back_off.max_delay = Some(30_000)),
            "backOff.maxDelay",
            "`maxDelay` 30s is below `delay` 1m",
        ),
        (
            back_off(|back_off| back_off.multiplier = Some(0.5)),
            "backOff.multiplier",
            "`multiplier` is below 1",
        ),
        (
            back_off(|back_off| back_off.multiplier = Some(f64::NAN)),
            "backOff.multiplier",
            "`multiplier` is below 1",
        ),
        (
            PolicyDraft { criteria: criteria("", "", "Format", ""), ..good() },
            "action",
            "`action` is `Format`, without its flow",
        ),
        (
            PolicyDraft { criteria: criteria("", "", ".Format", ""), ..good() },
            "action",
            "`action` is `.Format`, without its flow",
        ),
    ];
    for (draft, field, message) in cases {
        let problems = draft.check(&"x".into(), 0).expect_err(message);
        let [problem] = problems.as_slice() else { panic!("{message}: {problems:?}") };
        assert_eq!((problem.field, &*problem.message), (field, message));
        assert!(!problem.hint.is_empty());
    }
    let everything = PolicyDraft::default().check(&"x".into(), 0).expect_err("nothing is given");
    let fields: Vec<&str> = everything.iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["name", "errorSubstring", "maxAttempts", "backOff"], "all problems at once");
}

#[test]
fn engine_made_actions_need_no_flow() {
    for action in ["NoEgressFlowConfiguredAction", "EvaluateExpressionAction", "AwaitAction", "smoke.Format"]
    {
        assert!(draft("p", criteria("", "", action, "")).check(&"x".into(), 0).is_ok(), "{action}");
    }
}

#[test]
fn an_id_is_kept_if_given_and_made_if_not() {
    let given = PolicyDraft { id: Some("88bc7429".into()), ..draft("p", criteria("x", "", "", "")) };
    assert_eq!(&*given.check(&"fresh".into(), 0).expect("good").id, "88bc7429");
    let not = draft("p", criteria("x", "", "", ""));
    assert_eq!(&*not.check(&"fresh".into(), 0).expect("good").id, "fresh");
}

#[test]
fn what_collides_with_another_policy_is_refused() {
    let p = |name: &str, id: &str, text: &str, max: u32| {
        policy(name, criteria(text, "", "", ""), |policy| {
            policy.id = id.into();
            policy.max_attempts = max;
        })
    };
    let cases = [
        (p("b", "1", "y", 3), "id", "the id 1 is taken by policy `a`"),
        (p("a", "2", "y", 3), "name", "the name `a` is taken by policy 1"),
        (
            p("b", "2", "x", 3),
            "errorSubstring",
            "it matches the same errors as policy `a`, with the same `maxAttempts`",
        ),
    ];
    for (second, field, message) in cases {
        let problems = Policies::new(vec![p("a", "1", "x", 3), second]).expect_err(message);
        let [(1, PolicyProblem { field: found, message: told, .. })] = problems.as_slice() else {
            panic!("{problems:?}")
        };
        assert_eq!((*found, &**told), (field, message));
    }
    assert!(Policies::new(vec![p("a", "1", "x", 3), p("b", "2", "x", 4)]).is_ok());
}

#[test]
fn a_policy_is_shadowed_by_an_earlier_one_that_lasts_as_long() {
    let wide = || criteria("", "smoke", "", "");
    let narrow = || criteria("connection reset", "smoke", "", "");
    // The earlier one and the later one: criteria, budget, fatal; and whether the later one is ever asked.
    let cases = [
        (wide(), 10, false, narrow(), 10, false, true),
        (wide(), 10, false, narrow(), 9, false, true),
        (wide(), 3, false, narrow(), 10, false, false),
        (wide(), 10, false, narrow(), 10, true, false),
        (wide(), 10, true, narrow(), 10, true, true),
        (narrow(), 10, false, wide(), 10, false, false),
        (criteria("reset", "", "", ""), 10, false, narrow(), 10, false, true),
        (criteria("resets", "", "", ""), 10, false, narrow(), 10, false, false),
        (criteria("", "", "", "X"), 10, false, criteria("", "", "smoke.A", ""), 10, false, false),
    ];
    for (first, max, fatal, second, later_max, later_fatal, shadowed) in cases {
        let earlier = policy("earlier", first, |policy| {
            (policy.max_attempts, policy.include_fatal, policy.priority) = (max, fatal, 9);
        });
        let later = policy("later", second, |policy| {
            (policy.max_attempts, policy.include_fatal, policy.priority) = (later_max, later_fatal, 1);
        });
        let policies = Policies::new(vec![later, earlier]).expect("they do not collide");
        let wanted: &[ShadowedPolicy] = &[ShadowedPolicy { policy: "later".into(), by: "earlier".into() }];
        assert_eq!(policies.shadows(), if shadowed { wanted } else { &[] });
    }
}

/// Asking only those that an index finds gives the same as asking all in order.
#[test]
fn the_index_finds_what_a_walk_would() {
    let seed = 11;
    let mut random = Random::new(seed);
    let mut pick =
        |from: &[&'static str]| from[usize::try_from(random.between(0, from.len() as u64 - 1)).unwrap()];
    for round in 0..300 {
        let mut policies = Vec::new();
        for n in 0..12 {
            let found = criteria(
                pick(&["", "a", "b", "ab"]),
                pick(&["", "", "f", "g"]),
                pick(&["", "f.x", "g.x", "AwaitAction"]),
                pick(&["", "", "T"]),
            );
            let digit = |text: &str| text.parse::<u32>().expect("a number");
            let (max, priority, on) =
                (digit(pick(&["2", "3", "4"])), digit(pick(&["1", "2", "3"])), pick(&["y", "n"]));
            if found != Criteria::default() {
                policies.push(policy(&format!("p{n}"), found, |policy| {
                    (policy.max_attempts, policy.age) = (max, n);
                    (policy.priority, policy.enabled) = (i32::try_from(priority).unwrap(), on == "y");
                }));
            }
        }
        policies.dedup_by(|a, b| a.criteria == b.criteria && a.max_attempts == b.max_attempts);
        let Ok(set) = Policies::new(policies) else { continue };
        for cause in ["a", "b", "ab", "c"] {
            for rounds in 1..5 {
                let failure = ErrorToMatch {
                    rounds,
                    root_flow: pick(&["f", "g", "h"]),
                    action: pick(&["f.x", "g.x", "h.x"]),
                    found_by: Some(pick(&["AwaitAction", "DeferAction"])),
                    action_type: Some(pick(&["T", "U"])),
                    ..failure(cause)
                };
                let walked = set.iter().find(|policy| policy.judge(&failure) == PolicyVerdict::Takes);
                assert_eq!(set.find(&failure), walked, "seed {seed}, round {round}: {failure:?}");
            }
        }
    }
}

/// An order, carried out at a time, by policies as they are.
fn carried_out(policies: &Policies, order: PolicyCommand, at: i64) -> (Policies, PolicyOutcome) {
    let (set, outcome) = apply_command(policies, order, Time(at), 7, || "new".into()).expect("carried out");
    (Policies::new(set.policies).expect("they go together").with_switch(set.switch), outcome)
}

#[test]
fn pausing_and_unpausing_are_changes_of_the_whole_set_with_who_when_and_why() {
    let ada = || Actor::User("ada".into());
    let pause = |reason: &str| PolicyCommand::Pause { reason: reason.into(), by: ada() };
    let begin = Policies::new(vec![policy("p", criteria("reset", "", "", ""), |_| {})]).expect("one policy");

    let (unchanged, outcome) = carried_out(&begin, PolicyCommand::Unpause { rate: 50, by: ada() }, 5);
    assert_eq!((unchanged.switch(), outcome), (&PolicySwitch::default(), PolicyOutcome::default()));

    let (paused, outcome) = carried_out(&begin, pause("the provider is down"), 10);
    let since = PoliciesPaused { since: Time(10), by: ada(), reason: "the provider is down".into() };
    assert_eq!((paused.switch().version, paused.switch().paused()), (1, Some(&since)));
    assert_eq!(paused.len(), 1, "the policies are as they were");
    let [change] = outcome.changes.as_slice() else { panic!("{outcome:?}") };
    assert_eq!((change.at, &change.by, change.what), (Time(10), &ada(), PolicyAuditKind::Paused));
    assert_eq!((&*change.policy, change.reason.as_deref()), ("", Some("the provider is down")));

    let (again, outcome) = carried_out(&paused, pause("another reason"), 20);
    assert_eq!(
        (again.switch(), outcome),
        (paused.switch(), PolicyOutcome::default()),
        "it was paused already"
    );

    let off = PolicyCommand::Disable { names: vec!["p".into()], by: ada() };
    let (changed, _) = carried_out(&paused, off, 25);
    assert_eq!(changed.switch(), paused.switch(), "another change leaves the switch as it is");

    let (unpaused, outcome) = carried_out(&paused, PolicyCommand::Unpause { rate: 0, by: ada() }, 30);
    let from = PoliciesUnpaused { at: Time(30), clock: 7, rate: 1 };
    assert_eq!(*unpaused.switch(), PolicySwitch { version: 2, state: SwitchState::Unpaused(from) });
    assert_eq!(outcome.changes[0].what, PolicyAuditKind::Unpaused);
}

#[test]
fn there_are_never_more_turns_than_the_rate_allows() {
    for (rate, wanted) in [(1, 1), (2, 2), (3, 2), (50, 50), (300, 250), (1_000, 1_000), (2_500, 2_000)] {
        let mut turns = ResumePacer::default();
        assert!(!turns.take(Time(0), rate), "the first one comes after a wait");
        // Asked every millisecond, and now and then not for a while.
        for second in [1_000, 2_000, 60_000] {
            let taken = (second..second + 1_000).map(Time).filter(|now| turns.take(*now, rate)).count();
            let more = (0..rate).filter(|_| turns.take(Time(second + 999), rate)).count();
            assert!(taken + more <= rate as usize, "{rate} a second: {taken} and {more}");
            assert!(taken >= wanted.min(1_000), "{rate} a second: {taken}");
        }
        let next = turns.next(Time(60_999), rate).expect("turns are given out here");
        assert!(next > Time(60_999) && turns.take(next, rate), "{rate} a second: the next at {next}");
    }
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_the_turns() {
    let mut turns = ResumePacer::default();
    assert_eq!(turns.ready(Time(5_000_000), 10), 0);
    assert_eq!(turns.next(Time(1_000), 10), Some(Time(1_100)));
    assert!(turns.take(Time(1_100), 10));
}

#[test]
fn turns_are_given_out_by_one_server_and_the_next_one_begins_with_a_wait() {
    let mut turns = ResumePacer::default();
    turns.restart(true);
    for now in [0, 50, 1_000, 60_000].map(Time) {
        assert_eq!((turns.ready(now, 10), turns.next(now, 10)), (0, None), "at {now}");
        assert!(!turns.take(now, 10), "at {now}");
    }
    turns.restart(false);
    assert_eq!(turns.next(Time(60_000), 10), Some(Time(60_100)));
    assert!(!turns.take(Time(60_099), 10));
    assert!(turns.take(Time(60_100), 10));
}

/// Policies `a`, `b` and `c`, which match in this order; `b` is disabled.
fn three() -> Policies {
    let of = |name: &str, priority: i32, on: bool| {
        policy(name, criteria(&format!("cause {name}"), "", "", ""), |policy| {
            (policy.priority, policy.enabled) = (priority, on);
        })
    };
    Policies::new(vec![of("a", 3, true), of("b", 2, false), of("c", 1, true)]).expect("they go together")
}

/// What an order changes, as `what name`, and which policies there are then, in the order in which they match.
fn told(order: PolicyCommand) -> (Vec<String>, Vec<String>) {
    let (policies, outcome) = carried_out(&three(), order, 5);
    let changes = outcome.changes.iter().map(|change| format!("{} {}", change.what.word(), change.name));
    (changes.collect(), policies.iter().map(|policy| policy.name.to_string()).collect())
}

/// Everything that is wrong with an order.
fn refused(order: PolicyCommand) -> Vec<String> {
    let problems = apply_command(&three(), order, Time(5), 7, || "new".into()).expect_err("refused");
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_set_replaces_what_it_has_adds_what_is_new_and_deletes_the_rest() {
    let by = || Actor::User("ada".into());
    let same = |name: &str| draft(name, criteria(&format!("cause {name}"), "", "", ""));
    let with_id = |id: &str, name: &str| PolicyDraft { id: Some(id.into()), ..same(name) };
    let cases: [(Vec<PolicyDraft>, &[&str], &[&str]); 5] = [
        (vec![], &["deleted a", "deleted b", "deleted c"], &[]),
        (vec![same("d")], &["deleted a", "deleted b", "deleted c", "added d"], &["d"]),
        (vec![same("a"), same("d")], &["deleted b", "deleted c", "changed a", "added d"], &["a", "d"]),
        // By its id it may get another name.
        (vec![with_id("id-b", "e")], &["deleted a", "deleted c", "changed e"], &["e"]),
        (vec![same("b"), same("c"), same("a")], &["changed b", "changed c", "changed a"], &["b", "c", "a"]),
    ];
    for (drafts, changes, names) in cases {
        let (found, left) = told(PolicyCommand::Set { drafts: drafts.clone(), by: by() });
        assert_eq!(found, changes, "{drafts:?}");
        assert_eq!(left.len(), names.len(), "{left:?}");
        assert!(names.iter().all(|name| left.iter().any(|other| other == name)), "{left:?}");
    }
    let (policies, _) = carried_out(&three(), PolicyCommand::Set { drafts: vec![same("b")], by: by() }, 5);
    assert!(!policies.iter().next().expect("one is left").enabled, "what the draft does not say stays");
    let nothing = PolicyDraft { name: Some("x".into()), ..PolicyDraft::default() };
    assert!(refused(PolicyCommand::Set { drafts: vec![same("a"), nothing], by: by() }).len() > 1);
    let twice = refused(PolicyCommand::Set { drafts: vec![same("a"), same("a")], by: by() });
    assert!(!twice.is_empty());
}

#[test]
fn an_order_names_every_policy_once_and_sets_priorities_ten_apart() {
    let order = |names: &[&str]| PolicyCommand::Order {
        names: names.iter().map(|name| Arc::from(*name)).collect(),
        by: Actor::User("ada".into()),
    };
    let (changes, left) = told(order(&["c", "id-a", "b"]));
    assert_eq!(changes, ["changed b", "changed a", "changed c"]);
    assert_eq!(left, ["c", "a", "b"]);
    let (ordered, _) = carried_out(&three(), order(&["c", "a", "b"]), 5);
    let shown = |policy: &Arc<Policy>| (policy.priority, policy.is_priority_set, policy.version);
    assert_eq!(ordered.iter().map(shown).collect::<Vec<_>>(), [(30, true, 2), (20, true, 2), (10, true, 2)]);
    let (again, outcome) = carried_out(&ordered, order(&["c", "a", "b"]), 6);
    assert_eq!((outcome.changes.len(), outcome.unchanged.len()), (0, 3));
    assert_eq!(again.iter().map(shown).max(), Some((30, true, 2)));
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["a", "b"],
            &["policy `c`: it is not in the order; an order names every policy, the first to match first"],
        ),
        (&["a", "b", "c", "a"], &["policy `a`: it is named twice; name each policy once"]),
        (&["a", "id-a", "b", "c"], &["policy `id-a`: it is named twice; name each policy once"]),
        (&["a", "b", "c", "x"], &["there is no policy `x`; `unstuck policy list` lists them"]),
    ];
    for (names, wanted) in cases {
        assert_eq!(refused(order(names)), wanted, "{names:?}");
    }
}
