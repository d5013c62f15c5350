//! Retention: lanes that are held for tasks that sleep for moments.

use super::support::*;

#[test]
#[ignore = "runs in the test bed"]
fn lanes_are_held_where_that_is_wanted_and_nobody_starves() {
    let figure = |rates: &serde_json::Value, name: &str| rates[name].as_f64().unwrap();
    for wanted in [false, true] {
        let config = match wanted {
            true => "[scheduler]\nretain = true\nretention.start_ms = 10\n",
            false => "[scheduler]\nretain = false\n",
        };
        std::fs::write("/tmp/retain.toml", config).unwrap();
        let args = ["--config", "/tmp/retain.toml", "--batch", "cgroup:/batch"];
        let scheduler = Scheduler::attach(&args);
        let _batch: Vec<_> = (0..nr_cpus()).map(|_| Load::spin_in("batch")).collect();
        let _normal = Load::jobs(100, "0.001", &Traits::default());
        let rates = rates("2");
        let [held, back, failed] =
            ["held_lanes", "retentions", "retentions_failed"].map(|name| figure(&rates, name));
        println!(
            "wanted {wanted}: {held:.3} lanes held, {back} returns, {failed} in vain a second"
        );
        match wanted {
            false => assert_eq!((held, back, failed), (0.0, 0.0, 0.0), "{rates}"),
            true => {
                assert!(back > 1.0 && back > failed, "{rates}");
                assert!(held > 0.0 && held < nr_cpus() as f64, "{rates}");
            }
        }
        let batch = rates["busy_lanes"][2].as_f64().unwrap();
        assert!(batch > 1.0, "batch goes on on the other lanes: {rates}");
        assert!(scheduler.stop().success(), "ejected");
    }
}
