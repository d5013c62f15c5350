"""The M/M/c queue of the comparison, on SimPy or Ciw, as their documentation does it: mmc.py simpy|ciw CUSTOMERS."""

import random
import sys
import time

SERVERS = 4
UTILIZATION = 0.8  # of the servers; the mean service is 1


def tell(events, seconds, response):
    print(f"events {events} seconds {seconds:.6f} response {response:.4f}")


def on_simpy(customers):
    """A process a customer."""
    import simpy

    rng = random.Random(1)
    env = simpy.Environment()
    servers = simpy.Resource(env, capacity=SERVERS)
    responses = []

    def customer():
        arrived = env.now
        with servers.request() as request:
            yield request
            yield env.timeout(rng.expovariate(1.0))
        responses.append(env.now - arrived)

    def arrivals():
        rate = UTILIZATION * SERVERS
        for _ in range(customers):
            yield env.timeout(rng.expovariate(rate))
            env.process(customer())

    env.process(arrivals())
    began = time.perf_counter()
    env.run()
    seconds = time.perf_counter() - began
    tell(2 * customers, seconds, sum(responses) / customers)


def on_ciw(customers):
    """A network of one node."""
    import ciw

    ciw.seed(1)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=UTILIZATION * SERVERS)],
        service_distributions=[ciw.dists.Exponential(rate=1.0)],
        number_of_servers=[SERVERS],
    )
    simulation = ciw.Simulation(network)
    began = time.perf_counter()
    simulation.simulate_until_max_customers(customers, method="Finish")
    seconds = time.perf_counter() - began
    records = simulation.get_all_records(only=["service"])
    responses = [record.exit_date - record.arrival_date for record in records]
    # "Finish": so many customers have left; those that are still there have arrived.
    events = len(responses) + simulation.nodes[0].number_accepted_individuals
    tell(events, seconds, sum(responses) / len(responses))


{"simpy": on_simpy, "ciw": on_ciw}[sys.argv[1]](int(sys.argv[2]))
