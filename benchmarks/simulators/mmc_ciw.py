"""The M/M/c queue of the comparison, on Ciw: a network of one node, as its documentation does it."""

import sys
import time

import ciw

SERVERS = 4
UTILIZATION = 0.8  # of the servers; the mean service is 1


def main():
    customers = int(sys.argv[1])
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
    response = sum(responses) / len(responses)
    # "Finish": so many customers have left; those that are still there have arrived.
    events = len(responses) + simulation.nodes[0].number_accepted_individuals
    print(f"events {events} seconds {seconds:.6f} response {response:.4f}")


main()
