// Gloo, which PyTorch all-reduces with where there is no NCCL, over its TCP transport. Each of its algorithms is
// measured; who compares takes the best. Two of them work in place only: their calls go on from the last one's sum, and
// need not copy the input.
#include <fmt/core.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/lab/bench/yardsticks/measure.h"
#include "tests/lab/bench/yardsticks/processes.h"

namespace lockstep::bench {
namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

class GlooGroup : public Group {
 public:
  GlooGroup(Context context, MeetingPlace& meeting) : context_(std::move(context)), meeting_(meeting) {}
  [[nodiscard]] int rank() const final { return context_->rank; }
  [[nodiscard]] int size() const final { return context_->size; }
  double slowest(double mine) final { return meeting_.meet(rank(), mine); }

 protected:
  const Context context_;

 private:
  MeetingPlace& meeting_;
};

// The newer interface: gloo::allreduce().
class ByOptions final : public GlooGroup {
 public:
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  ByOptions(Context context, MeetingPlace& meeting, Algorithm algorithm)
      : GlooGroup(std::move(context), meeting), algorithm_(algorithm) {}

  void prepare(std::span<const float> send, std::span<float> recv) override {
    options_.emplace(context_);
    options_->setAlgorithm(algorithm_);
    options_->setInput(const_cast<float*>(send.data()), send.size());  // it only reads there
    options_->setOutput(recv.data(), recv.size());
    using Sum = void (*)(void*, const void*, const void*, std::size_t);
    options_->setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
  }
  void all_reduce() override {
    options_->setTag(tag_++);
    gloo::allreduce(*options_);
  }

 private:
  const Algorithm algorithm_;
  std::optional<gloo::AllreduceOptions> options_;
  std::uint32_t tag_ = 0;
};

// The older one: an object per buffer.
template <template <typename> typename Algorithm>
class ByObject final : public GlooGroup {
 public:
  using GlooGroup::GlooGroup;

  void prepare(std::span<const float> send, std::span<float> recv) override {
    std::copy(send.begin(), send.end(), recv.begin());
    const std::vector<float*> buffers{recv.data()};
    algorithm_ = std::make_unique<Algorithm<float>>(context_, buffers, static_cast<int>(recv.size()));
  }
  void all_reduce() override { algorithm_->run(); }

 private:
  std::unique_ptr<Algorithm<float>> algorithm_;
};

const std::vector<std::string> kAlgorithms = {"ring", "bcube", "ring-chunked", "halving-doubling"};

std::unique_ptr<Group> group_of(const std::string& algorithm, Context context, MeetingPlace& meeting) {
  using Options = gloo::AllreduceOptions::Algorithm;
  if (algorithm == "ring") return std::make_unique<ByOptions>(std::move(context), meeting, Options::RING);
  if (algorithm == "bcube") return std::make_unique<ByOptions>(std::move(context), meeting, Options::BCUBE);
  if (algorithm == "ring-chunked") {
    return std::make_unique<ByObject<gloo::AllreduceRingChunked>>(std::move(context), meeting);
  }
  return std::make_unique<ByObject<gloo::AllreduceHalvingDoubling>>(std::move(context), meeting);
}

// Where processes find each other. Needed until they have, and gone then, so that nobody who ends this program leaves
// it behind.
class Folder {
 public:
  Folder() {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make the folder " + path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { remove(); }

  [[nodiscard]] const std::string& path() const { return path_; }
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "lockstep-gloo-XXXXXX";
};

void measure_all(const Work& work, int rank, const Folder& folder, MeetingPlace& meeting) {
  const Host host = work.hosts.empty() ? Host{"127.0.0.1", ""} : work.hosts[static_cast<std::size_t>(rank)];
  if (!host.network.empty()) enter_network(host.network);
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(host.address.c_str());
  gloo::rendezvous::FileStore files(folder.path());
  std::vector<std::pair<std::string, std::unique_ptr<Group>>> groups;
  for (const std::string& algorithm : kAlgorithms) {
    if (!work.algorithm.empty() && work.algorithm != algorithm) continue;
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, work.processes);
    gloo::rendezvous::PrefixStore store(algorithm, files);
    context->connectFullMesh(store, device);
    groups.emplace_back(algorithm, group_of(algorithm, std::move(context), meeting));
  }
  meeting.meet(rank, 0);
  if (rank == 0) folder.remove();
  for (const auto& [algorithm, group] : groups) measure(*group, work, algorithm);
}

int run(int argc, char** argv) {
  const Work work = work_of(argc, argv, Starter::kItselfOnHosts, kAlgorithms);
  const Folder folder;
  MeetingPlace meeting(work.processes);
  return run_processes(work.processes, [&](int rank) { measure_all(work, rank, folder, meeting); });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::run(argc, argv); }
