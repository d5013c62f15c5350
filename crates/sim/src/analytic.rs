//! Exact results of queueing theory, to compare simulations with.
//!
//! Times are in any unit, rates per that unit. Response is the time from arrival to completion.
//! Unless said otherwise, service is first come first served and independent of arrivals.
//! Source of the formulas: Kleinrock 1975, "Queueing Systems, Volume 1", by section (K).

/// Mean response of M/M/1: S / (1 − ρ) with ρ = λ S (K 3.2).
///
/// None if the queue would grow for ever, or a parameter is not a number of at least 0.
pub fn mm1_response(arrival_rate: f64, mean_service: f64) -> Option<f64> {
    mg1_response(arrival_rate, mean_service, 1.0)
}

/// Mean response of M/G/1, by the squared coefficient of variation of the service time:
/// S + ρ S (1 + c²) / (2 (1 − ρ)), Pollaczek and Khinchine (K 5.5).
///
/// None if the queue would grow for ever, or a parameter is not a number of at least 0.
pub fn mg1_response(arrival_rate: f64, mean_service: f64, squared_cv: f64) -> Option<f64> {
    let load = arrival_rate * mean_service;
    let valid = all_valid(&[arrival_rate, mean_service, squared_cv]) && load < 1.0;
    valid.then(|| mean_service + load * mean_service * (1.0 + squared_cv) / (2.0 * (1.0 - load)))
}

/// The probability that an arrival at M/M/s has to wait (Erlang's C formula; K 3.5), where `load`
/// is arrival rate times mean service.
///
/// From Erlang's B by its recursion over servers, which stays between 0 and 1 for any number.
/// None if the load is not a number from 0 to below `servers`.
pub fn erlang_c(servers: u32, load: f64) -> Option<f64> {
    let nr_servers = f64::from(servers);
    if !(load >= 0.0 && load < nr_servers) {
        return None;
    }
    let blocked = (1..=servers).fold(1.0, |b, k| load * b / (f64::from(k) + load * b));
    Some(nr_servers * blocked / (nr_servers - load * (1.0 - blocked)))
}

/// Mean response of M/M/s: S + C S / (s − λ S), with C of [`erlang_c`] (K 3.5).
///
/// None if the queue would grow for ever, or a parameter is not a number of at least 0.
pub fn mms_response(arrival_rate: f64, mean_service: f64, servers: u32) -> Option<f64> {
    let load = arrival_rate * mean_service;
    let valid = all_valid(&[arrival_rate, mean_service]);
    let waits = valid.then(|| erlang_c(servers, load))??;
    Some(mean_service + waits * mean_service / (f64::from(servers) - load))
}

/// Mean response where arrivals are Poisson, demands exponential, and `rates[n - 1]` requests
/// complete per unit of time when n are there; with more than that, the last. This is a core whose
/// lanes slow each other down.
///
/// Birth-death process (K 3.1) with Little's law. None if the queue would grow for ever, a
/// parameter is not a number above 0, or there is no rate.
pub fn load_dependent_response(arrival_rate: f64, rates: &[f64]) -> Option<f64> {
    let last = *rates.last()?;
    let valid = all_valid(rates) && all_valid(&[arrival_rate]) && arrival_rate > 0.0;
    if !valid || rates.contains(&0.0) || arrival_rate >= last {
        return None;
    }
    let mut states = States::new();
    for &rate in rates {
        states.include(0.0);
        states.advance(arrival_rate / rate);
    }
    // From the state reached, the first with the last rate, the probabilities are geometric.
    let (ratio, n) = (arrival_rate / last, states.n);
    let tail = states.weight / (1.0 - ratio);
    let present = states.present + tail * (n + ratio / (1.0 - ratio));
    Some(present / (states.total + tail) / arrival_rate)
}

/// Mean response and throughput of a closed network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedNetwork {
    /// Mean time from a request's arrival to its completion.
    pub response: f64,
    /// Completed requests per unit of time.
    pub throughput: f64,
}

/// So many clients that think for a time with the mean `mean_think`, however distributed, and then
/// wait for an exponential service at one of so many servers: the machine-repairman model (K 3.8,
/// 3.10).
///
/// None without clients or servers, or if the mean service is not a number above 0, or the mean
/// think time not one of at least 0.
pub fn closed_network(
    clients: u32,
    mean_think: f64,
    mean_service: f64,
    servers: u32,
) -> Option<ClosedNetwork> {
    let used = servers.min(clients); // more servers are never busy
    let rates: Vec<f64> = (1..=used)
        .map(|busy| f64::from(busy) / mean_service)
        .collect();
    closed_load_dependent(clients, mean_think, &rates)
}

/// As [`closed_network`], but `rates[n - 1]` requests complete per unit of time when n are there;
/// with more than that, the last. This is a core whose lanes slow each other down.
///
/// Stationary solution of the birth-death process (K 3.1) with Little's law. None without clients
/// or rates, or if a rate is not a number above 0, or the mean think time not one of at least 0.
pub fn closed_load_dependent(
    clients: u32,
    mean_think: f64,
    rates: &[f64],
) -> Option<ClosedNetwork> {
    let last = *rates.last()?;
    if !all_valid(rates) || !all_valid(&[mean_think]) || rates.contains(&0.0) || clients == 0 {
        return None;
    }
    let rate_of = |n: u32| rates.get(n as usize - 1).copied().unwrap_or(last);
    if mean_think == 0.0 {
        let throughput = rate_of(clients); // all clients are always there
        return Some(ClosedNetwork {
            response: f64::from(clients) / throughput,
            throughput,
        });
    }
    let mut states = States::new();
    states.include(0.0);
    for n in 1..=clients {
        let arrival_rate = f64::from(clients - n + 1) / mean_think;
        states.advance(arrival_rate / rate_of(n));
        states.include(rate_of(n));
    }
    Some(ClosedNetwork {
        response: states.present / states.completed,
        throughput: states.completed / states.total,
    })
}

/// The states of a birth-death process, one after the other: sums of their probabilities, times a
/// common factor that is not known before the last.
struct States {
    /// Requests in the state reached.
    n: f64,
    /// Its probability.
    weight: f64,
    /// Sum over the states included.
    total: f64,
    /// Sum of the requests in them.
    present: f64,
    /// Sum of their rates of completion.
    completed: f64,
}

impl States {
    fn new() -> States {
        States {
            n: 0.0,
            weight: 1.0,
            total: 0.0,
            present: 0.0,
            completed: 0.0,
        }
    }

    /// Adds the state reached to the sums.
    fn include(&mut self, completion_rate: f64) {
        self.total += self.weight;
        self.present += self.weight * self.n;
        self.completed += self.weight * completion_rate;
    }

    /// Goes on to the next state, which is `ratio` times as likely.
    fn advance(&mut self, ratio: f64) {
        self.n += 1.0;
        self.weight *= ratio;
        // The common factor is free: with many clients the likely states would overflow.
        if self.weight > 1e100 {
            let factor = 1.0 / self.weight;
            self.weight = 1.0;
            self.total *= factor;
            self.present *= factor;
            self.completed *= factor;
        }
    }
}

fn all_valid(parameters: &[f64]) -> bool {
    parameters.iter().all(|p| p.is_finite() && *p >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: Option<f64>, expected: f64) {
        let actual = actual.unwrap();
        let error = (actual / expected - 1.0).abs();
        assert!(error < 1e-12, "{actual} instead of {expected}");
    }

    #[test]
    fn single_servers_are_those_of_the_textbook() {
        assert_close(mm1_response(0.5, 1.0), 2.0);
        assert_close(mm1_response(0.9, 1.0), 10.0);
        assert_close(mg1_response(0.5, 1.0, 0.0), 1.5); // M/D/1 waits half as long as M/M/1
        assert_close(mg1_response(0.8, 1.0, 3.0), 9.0);
        assert_close(mm1_response(0.0, 3.0), 3.0);
    }

    #[test]
    fn several_servers_are_those_of_the_textbook() {
        assert_close(erlang_c(1, 0.3), 0.3);
        assert_close(erlang_c(2, 1.0), 1.0 / 3.0);
        assert_close(erlang_c(3, 2.0), 4.0 / 9.0);
        // An eye clinic: 6 patients an hour, 20 minutes each, 3 doctors: 28.9 minutes
        // (Gross and Harris 1998, "Fundamentals of Queueing Theory", M/M/c).
        assert_close(mms_response(6.0 / 60.0, 20.0, 3), 20.0 + 80.0 / 9.0);
        assert_close(mms_response(0.9, 1.0, 1), 10.0);
    }

    #[test]
    fn many_servers_do_not_overflow() {
        // By summation in exact fractions.
        assert_close(erlang_c(100, 90.0), 0.2169404809063664);
        assert_close(erlang_c(2000, 1950.0), 0.1786750682327352);
    }

    #[test]
    fn what_has_no_stationary_solution_has_no_result() {
        assert_eq!(mm1_response(1.0, 1.0), None);
        assert_eq!(mg1_response(0.5, f64::NAN, 1.0), None);
        assert_eq!(mg1_response(-0.5, 1.0, 1.0), None);
        assert_eq!(mms_response(2.0, 1.0, 2), None);
        assert_eq!(mms_response(0.0, 1.0, 0), None);
        assert_eq!(load_dependent_response(1.3, &[1.0, 1.26]), None);
        assert_eq!(load_dependent_response(0.5, &[]), None);
        assert_eq!(load_dependent_response(0.5, &[0.0, 1.0]), None);
        assert_eq!(closed_network(0, 1.0, 1.0, 1), None);
        assert_eq!(closed_network(1, 1.0, 1.0, 0), None);
        assert_eq!(closed_network(1, 1.0, 0.0, 1), None);
        assert_eq!(closed_network(1, f64::INFINITY, 1.0, 1), None);
    }

    #[test]
    fn lanes_that_do_not_interfere_are_servers() {
        let rates = [0.5, 1.0, 1.5, 2.0];
        let servers = mms_response(1.7, 2.0, 4).unwrap();
        assert_close(load_dependent_response(1.7, &rates), servers);
        let repeated = [0.5, 1.0, 1.5, 2.0, 2.0, 2.0];
        assert_close(load_dependent_response(1.7, &repeated), servers);
    }

    #[test]
    fn lanes_that_share_a_core_are_between_one_server_and_two() {
        // Half the speed each when both run: the core is one server that is shared.
        assert_close(load_dependent_response(0.8, &[1.0, 1.0]), 5.0);
        // The states are as likely as 1, 1, 1/2, 2/5, 8/25, ...: sum 9/2, requests 16.
        assert_close(load_dependent_response(1.0, &[1.0, 2.0, 1.25]), 32.0 / 9.0);
    }

    #[test]
    fn closed_networks_are_those_of_mean_value_analysis() {
        // Reiser and Lavenberg 1980: an arrival finds the network with one client less.
        let (think, service) = (5.0, 0.7);
        let mut present = 0.0;
        for clients in 1..=60u32 {
            let response = service * (1.0 + present);
            let throughput = f64::from(clients) / (think + response);
            present = throughput * response;
            let network = closed_network(clients, think, service, 1).unwrap();
            assert_close(Some(network.response), response);
            assert_close(Some(network.throughput), throughput);
        }
    }

    #[test]
    fn machines_and_repairmen_are_those_of_the_textbook() {
        // 5 machines that break after 30 hours, 2 repairmen that take 3 hours: 0.465 broken
        // (Gross and Harris 1998, finite-source queues).
        let network = closed_network(5, 30.0, 3.0, 2).unwrap();
        let broken = network.throughput * network.response;
        assert!((broken - 0.465).abs() < 0.000_5, "{broken}");
    }

    #[test]
    fn closed_networks_keep_their_limits() {
        // Nobody waits where there are servers for all.
        let network = closed_network(40, 3.0, 2.0, 50).unwrap();
        assert_close(Some(network.response), 2.0);
        assert_close(Some(network.throughput), 8.0);
        // Saturated: N / X - Z.
        let network = closed_network(1_000_000, 10.0, 1.0, 4).unwrap();
        assert_close(Some(network.throughput), 4.0);
        assert_close(Some(network.response), 249_990.0);
        let network = closed_network(8, 0.0, 1.0, 4).unwrap();
        assert_eq!((network.response, network.throughput), (2.0, 4.0));
        // Little's law, with lanes that slow each other down.
        let network = closed_load_dependent(6, 2.0, &[1.0, 1.26]).unwrap();
        assert_close(Some(network.throughput * (network.response + 2.0)), 6.0);
    }
}
