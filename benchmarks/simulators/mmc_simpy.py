"""The M/M/c queue of the comparison, on SimPy: a process a customer, as its documentation does it."""

import random
import sys
import time

import simpy

SERVERS = 4
UTILIZATION = 0.8  # of the servers; the mean service is 1


class Queue:
    def __init__(self, customers):
        self.customers = customers
        self.random = random.Random(1)
        self.env = simpy.Environment()
        self.servers = simpy.Resource(self.env, capacity=SERVERS)
        self.response_sum = 0.0

    def arrivals(self):
        rate = UTILIZATION * SERVERS
        for _ in range(self.customers):
            yield self.env.timeout(self.random.expovariate(rate))
            self.env.process(self.customer())

    def customer(self):
        arrived = self.env.now
        with self.servers.request() as request:
            yield request
            yield self.env.timeout(self.random.expovariate(1.0))
        self.response_sum += self.env.now - arrived


def main():
    queue = Queue(int(sys.argv[1]))
    queue.env.process(queue.arrivals())
    began = time.perf_counter()
    queue.env.run()
    seconds = time.perf_counter() - began
    response = queue.response_sum / queue.customers
    print(f"events {2 * queue.customers} seconds {seconds:.6f} response {response:.4f}")


main()
