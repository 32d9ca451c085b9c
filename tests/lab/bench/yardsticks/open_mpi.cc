// The yardstick that everybody knows: MPI_Allreduce. Started by `mpirun -n N`.
#include <mpi.h>

#include <span>

#include "tests/lab/bench/yardsticks/measure.h"

namespace lockstep::bench {
namespace {

class MpiGroup final : public Group {
 public:
  MpiGroup() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void prepare(std::span<const float> send, std::span<float> recv) override {
    send_ = send;
    recv_ = recv;
  }
  void all_reduce() override {  // an error ends the program: MPI_ERRORS_ARE_FATAL is the default
    MPI_Allreduce(send_.data(), recv_.data(), static_cast<int>(recv_.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  double slowest(double mine) override {
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
  }

 private:
  int rank_ = 0;
  int size_ = 1;
  std::span<const float> send_;
  std::span<float> recv_;
};

int run(int argc, char** argv) {
  const Work work = work_of(argc, argv, Starter::kMpirun);
  MPI_Init(&argc, &argv);
  MpiGroup group;
  measure(group, work);
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::run(argc, argv); }
