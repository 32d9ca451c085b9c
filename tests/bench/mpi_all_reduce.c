/* How fast MPI_Allreduce is, measured as `lockstep bench` measures: the yardstick of compare_mpi.sh.
 *
 * usage: mpirun -n N mpi_all_reduce BEGIN END FACTOR   (sizes in bytes)
 * prints per size: bytes, microseconds, bus bandwidth in GB/s, wrong elements; f32, sum, out of place.
 *
 * A call to check the result, two to warm up, then about half a second of calls between two moments at which all have met;
 * the time is that of the slowest process. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double slowest(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

static double time_of(const float* send, float* recv, size_t count, int iterations) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) {
    MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  return slowest((MPI_Wtime() - began) / iterations);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 4) {
    if (rank == 0) fprintf(stderr, "usage: mpirun -n N %s BEGIN END FACTOR\n", argv[0]);
    MPI_Finalize();
    return 2;
  }
  const size_t begin = strtoull(argv[1], NULL, 10);
  const size_t end = strtoull(argv[2], NULL, 10);
  const size_t factor = strtoull(argv[3], NULL, 10);
  for (size_t bytes = begin; bytes <= end && factor > 1; bytes *= factor) {
    const size_t count = bytes / sizeof(float);
    float* send = malloc(bytes);
    float* recv = malloc(bytes);
    if (send == NULL || recv == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < count; ++i) {
      send[i] = (float)((i + (size_t)rank) % 7);
      recv[i] = 0;
    }
    MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double wrong = 0;
    for (size_t i = 0; i < count; ++i) {
      float expected = 0;
      for (int r = 0; r < size; ++r) expected += (float)((i + (size_t)r) % 7);
      if (recv[i] < expected || recv[i] > expected) wrong += 1;
    }
    wrong = slowest(wrong);

    const double estimate = time_of(send, recv, count, 2);
    double wanted = 0.5 / (estimate > 1e-7 ? estimate : 1e-7);
    if (wanted < 4) wanted = 4;
    if (wanted > 5000) wanted = 5000;
    const double seconds = time_of(send, recv, count, (int)wanted);
    if (rank == 0) {
      const double bus = (double)bytes / seconds * 2 * (size - 1) / size * 1e-9;
      printf("%zu %.1f %.3f %.0f\n", bytes, seconds * 1e6, bus, wrong);
      fflush(stdout);
    }
    free(send);
    free(recv);
  }
  MPI_Finalize();
  return 0;
}
