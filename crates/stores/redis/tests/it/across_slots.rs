//! Takes over several accounts on a Cluster of three masters: in one slot, in several that are refused, and in several that are
//! taken part by part.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollway_core::{
    AccountKey, Action, Booking, CallId, Charge, Charges, ClusterSlot, Decision, Fault, Operation, Outcome,
    PermitId, Policy, Retry, Store, StoreError, Subject, Terms,
};
use tollway_redis::RedisStore;
use tollway_testkit::servers::RedisCluster;
use tollway_testkit::{Random, wait_for};

fn url(cluster: &RedisCluster, options: &str) -> String {
    let hosts: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    format!("redis+cluster://{}?deadline=20s{options}", hosts.join(","))
}

fn policy(name: &str, limit: &str, slot: &str) -> Arc<Policy> {
    let slot = if slot.is_empty() { ClusterSlot::Subject } else { slot.parse().unwrap() };
    Arc::new(Policy::new(name, [limit]).unwrap().with_cluster_slot(slot))
}

fn charge(policy: &Arc<Policy>, subject: &str) -> Charge {
    Charge::new(Arc::clone(policy), Subject::new(subject).unwrap())
}

fn apply(
    store: &RedisStore,
    charges: impl IntoIterator<Item = Charge>,
    action: Action,
) -> Result<Outcome, StoreError> {
    let operation = Operation { charges: charges.into_iter().collect::<Charges>(), action };
    wait_for(store.apply(&[operation])).map(|mut outcomes| outcomes.remove(0))
}

fn take(store: &RedisStore, charges: &[Charge], id: Option<&str>) -> Result<Decision, StoreError> {
    static PERMITS: AtomicU64 = AtomicU64::new(1);
    let permit = PermitId(PERMITS.fetch_add(1, Ordering::Relaxed).into());
    let terms = Terms { call: id.map(|id| CallId::new(id).unwrap()), ..Terms::now(permit) };
    match apply(store, charges.iter().cloned(), Action::Take(terms))? {
        Outcome::Decided(decision) => Ok(decision),
        other => panic!("a take is answered with {other:?}"),
    }
}

fn used(store: &RedisStore, charge: &Charge) -> u64 {
    match apply(store, [charge.clone()], Action::Peek).unwrap() {
        Outcome::Peeked(statuses) => statuses[0].readings[0].used,
        other => panic!("a peek is answered with {other:?}"),
    }
}

/// How many scripts all nodes have run.
fn scripts_run(cluster: &RedisCluster) -> u64 {
    let calls = |stats: &str, command: &str| {
        let calls = stats.split_once(&format!("cmdstat_{command}:calls=")).map_or("0", |(_, rest)| rest);
        calls.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let stats = cluster.nodes().iter().map(|node| node.command(&["INFO", "commandstats"]));
    stats.map(|stats| calls(&stats, "evalsha") + calls(&stats, "eval")).sum()
}

/// B1: `and` over two subjects and two policies that name one slot is one script, all or nothing.
#[test]
fn take_in_one_slot_is_one_atomic_call() {
    let cluster = RedisCluster::start(3);
    let store = RedisStore::open(&url(&cluster, "&denials=0s")).unwrap();
    let (user, total) = (policy("user", "5 / day bucket", "shop"), policy("total", "2 / day bucket", "shop"));
    let both = |subject: &str| [charge(&user, subject), charge(&total, "")];
    let organisation = |name: &str| policy(name, "9 / day bucket", "subject-prefix:/");
    let (member, group) = (organisation("member"), organisation("group"));
    let by_prefix = [charge(&member, "acme/{ann}"), charge(&group, "acme")];
    // The first ones bring the script to their nodes, and ask whether subjects share accounts.
    for charges in [&both("ann")[..], &by_prefix] {
        assert!(take(&store, charges, None).unwrap().is_granted());
        let before = scripts_run(&cluster);
        assert!(take(&store, charges, None).unwrap().is_granted());
        assert_eq!(scripts_run(&cluster), before + 1);
    }
    assert!(!take(&store, &both("bob"), None).unwrap().is_granted());
    assert_eq!((used(&store, &charge(&user, "bob")), used(&store, &charge(&user, "ann"))), (0, 2));
    let key = "tollway:1:{s:acme}/acme%2F%7Bann%7D:member";
    assert_eq!(cluster.node_of(key).command(&["EXISTS", key]), "1");
    let key = "tollway:1:{n:shop}/:total";
    assert_eq!(cluster.node_of(key).command(&["EXISTS", key]), "1");
}

/// What callers name never puts them into another slot: without `slot`, two subjects are refused whatever they contain.
#[test]
fn take_over_several_slots_is_refused_with_the_line_to_write() {
    let store = RedisStore::open(&url(RedisCluster::shared(), "")).unwrap();
    let (user, total) = (policy("refused-user", "5 / day", ""), policy("refused-total", "5 / day", ""));
    let refused = |charges: &[Charge]| {
        let error = take(&store, charges, None).unwrap_err();
        assert_eq!((error.fault, error.retry), (Fault::Caller, Retry::Useless), "{error}");
        error.message
    };
    let message = refused(&[charge(&user, "ann"), charge(&total, "")]);
    assert!(message.contains("policies refused-user and refused-total"), "{message}");
    assert!(message.contains("`slot = \"refused-user\"` under both [policies.refused-user]"), "{message}");
    refused(&[charge(&user, "{x}a"), charge(&total, "{x}b")]);
    refused(&[charge(&user, "x}a"), charge(&total, "x}b")]);
    assert!(take(&store, &[charge(&user, "ann"), charge(&total, "ann")], None).unwrap().is_granted());
    assert_eq!((used(&store, &charge(&user, "{x}a")), used(&store, &charge(&total, ""))), (0, 0));
}

/// Seven policies with limits small enough that most takes are denied.
fn scarce() -> Vec<Arc<Policy>> {
    let limits = ["40 / day", "90 / 300 days bucket", "60 / day from first call", "25 / day", "70 / day"];
    let limits = limits.into_iter().chain(["55 / 300 days bucket", "80 / day"]);
    limits.enumerate().map(|(index, limit)| policy(&format!("scarce-{index}"), limit, "")).collect()
}

/// I1, I2, I3, I5: processes take at random over policies in different slots. No limit is exceeded; exactly what was granted and
/// kept is counted, so each denial has given back what it took.
#[test]
fn processes_that_race_over_slots_never_exceed_a_limit() {
    const PROCESSES: u64 = 8;
    const TAKES: u64 = 60;
    let url = url(RedisCluster::shared(), "&across_slots=undo");
    let (policies, denied) = (scarce(), AtomicU64::new(0));
    let process = |seed: u64| {
        let (store, mut random) = (RedisStore::open(&url).unwrap(), Random::new(seed));
        let mut kept: HashMap<AccountKey, u64> = HashMap::new();
        for _ in 0..TAKES {
            let id = random.percent(20).then(|| random.below(8));
            let first = id.map_or_else(|| random.index(policies.len()), |id| id as usize % policies.len());
            let count = id.map_or_else(|| 1 + random.index(3), |_| 3);
            let chosen = (first..first + count).map(|index| index % policies.len());
            let charges: Vec<Charge> =
                chosen.map(|index| charge(&policies[index], &format!("subject {index}"))).collect();
            let decision = take(&store, &charges, id.map(|id| format!("id {id}")).as_deref()).unwrap();
            assert!(!decision.over, "{decision:?}");
            let Some(booking) = decision.booking().filter(|_| !decision.repeated) else {
                denied.fetch_add(u64::from(!decision.is_granted()), Ordering::Relaxed);
                continue;
            };
            if id.is_none() && random.percent(20) {
                give_back(&store, charges, *booking);
                continue;
            }
            charges.iter().for_each(|charge| *kept.entry(charge.key()).or_default() += 1);
        }
        kept
    };
    let kept: Vec<HashMap<AccountKey, u64>> = std::thread::scope(|scope| {
        let process = &process;
        let processes: Vec<_> = (0..PROCESSES).map(|seed| scope.spawn(move || process(seed))).collect();
        processes.into_iter().map(|process| process.join().unwrap()).collect()
    });
    let store = RedisStore::open(&url).unwrap();
    for (index, policy) in policies.iter().enumerate() {
        let charge = charge(policy, &format!("subject {index}"));
        let granted: u64 = kept.iter().filter_map(|kept| kept.get(&charge.key())).sum();
        assert!(granted <= policy.limits()[0].capacity(), "{policy:?} granted {granted}");
        assert_eq!(used(&store, &charge), granted, "{policy:?}");
    }
    assert!(denied.into_inner() > 0, "some takes were denied");
}

fn give_back(store: &RedisStore, charges: Vec<Charge>, booking: Booking) {
    let settled = apply(store, charges, Action::Return { booking, remember: false }).unwrap();
    assert!(matches!(settled, Outcome::Settled(_)), "{settled:?}");
}

/// A node that does not answer fails the take, and nothing stays taken on the others.
#[test]
fn take_that_a_node_does_not_answer_leaves_nothing() {
    let cluster = RedisCluster::start(3);
    let hosts = url(&cluster, "&across_slots=undo").replace("deadline=20s", "deadline=1s");
    let store = RedisStore::open(&hosts).unwrap();
    // One policy for each node: their names are their slots.
    let on_node = |node: usize| {
        let name = |number: u32| format!("node-{node}-{number}");
        let key = |name: &str| format!("{{n:{name}}}");
        let is_there = |name: &String| cluster.node_of(&key(name)).port() == cluster.nodes()[node].port();
        let name = (0..).map(name).find(is_there).unwrap();
        policy(&name, "100 / day", &name)
    };
    let charges: Vec<Charge> = (0..3).map(|node| charge(&on_node(node), "ann")).collect();
    assert!(take(&store, &charges, None).unwrap().is_granted());
    cluster.nodes()[2].pause();
    for _ in 0..3 {
        assert!(take(&store, &charges, None).is_err());
    }
    cluster.nodes()[2].resume();
    cluster.wait_until_whole();
    let granted = (0..100).any(|_| take(&store, &charges, None).is_ok_and(|decision| decision.is_granted()));
    assert!(granted, "the node is back");
    // What a node applied after its callers had left is returned when the store finds out.
    let patient = RedisStore::open(&url(&cluster, "")).unwrap();
    let is_settled = || charges.iter().all(|charge| used(&patient, charge) == 2);
    let waits = || {
        std::thread::sleep(Duration::from_millis(50));
        false
    };
    assert!((0..200).any(|_| is_settled() || waits()), "only what was granted is counted");
}
