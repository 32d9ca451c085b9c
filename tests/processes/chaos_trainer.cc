#include "tests/processes/chaos_trainer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include "core/base/rng.h"
#include "core/kernels/checksum.h"
#include "tests/processes/chaos_gradient.h"
#include "transport/communicator.h"

namespace lockstep::testing {
namespace {

using transport::Communicator;
using transport::CommunicatorOptions;
using transport::LaunchArgs;
using transport::Outcome;
using transport::Work;

// A fraction of a millisecond each: peers share the machine's cores.
constexpr std::uint64_t kLoopsPerMs = 50'000;

std::span<const std::byte> bytes_of(const auto& vector) { return std::as_bytes(std::span(vector)); }

struct State {
  bool known = false;
  std::uint64_t step = 0;
  std::vector<std::uint64_t> weights = std::vector<std::uint64_t>(300'007, 1);  // several pieces; the last one is short
};

class Trainer {
 public:
  Trainer(Parent& parent, const ChaosSettings& settings, std::string address, std::string name, std::uint32_t founders,
          const SharedJournal& journal)
      : parent_(parent), settings_(settings), address_(std::move(address)), name_(std::move(name)), journal_(journal) {
    founders_ = founders;
    state_.known = founders != kNeverFounds;
  }

  // Runs until all steps are done or an error occurs.
  int run() {
    for (;;) {
      switch (live()) {
        case End::kDone: return 0;
        case End::kWrong: return 1;
        case End::kRunLost: break;
      }
      state_ = State{};
      founders_ = kNeverFounds;
    }
  }

 private:
  enum class End { kDone, kRunLost, kWrong };
  enum class Next { kGoOn, kRunLost, kWrong };

  End live() {
    CommunicatorOptions options;
    options.peer.name = name_;
    options.listen_host = "127.0.0.1";
    options.peer.founders = founders_;
    options.journal = [this](std::string_view line) { journal_.write(line); };
    options.log = [this](std::string_view line) { parent_.say("L " + std::string(line)); };
    auto made = Communicator::create(std::move(options));
    if (!made.ok()) {
      parent_.say("E create: " + made.error().text);
      return End::kWrong;
    }
    comm_ = std::move(*made);
    Next next = call("connect", comm_->connect(address_));
    if (next == Next::kGoOn) {
      parent_.say("J");
      if (!state_.known) {  // the other peers are in the middle of a step, after their admit
        next = synchronize();
        if (next == Next::kGoOn) next = compute_and_reduce();
      }
    }
    while (next == Next::kGoOn && state_.step < settings_.steps) next = step();
    if (next == Next::kGoOn) next = call("leave", comm_->leave());
    comm_.reset();
    if (next == Next::kGoOn) parent_.say("D");
    return next == Next::kGoOn ? End::kDone : next == Next::kRunLost ? End::kRunLost : End::kWrong;
  }

  Next step() {
    std::uint8_t somebody_waits = comm_->pending() > 0 ? 1 : 0;
    LaunchArgs flag = collective(wire::Collective::kAllReduce, DataType::kU8, Tag{1});
    flag.op = ReduceOp::kMax;
    flag.tensors.push_back({&somebody_waits, &somebody_waits, 1, 0});
    Next next = call("flag", comm_->launch(flag));
    if (next == Next::kGoOn && somebody_waits != 0) {
      next = call("admit", comm_->admit());
      if (next == Next::kGoOn) next = synchronize();
    }
    return next == Next::kGoOn ? compute_and_reduce() : next;
  }

  Next compute_and_reduce() {
    // The work of a training step, of different length on every peer.
    const std::uint64_t loops =
        below(draw(comm_->self().low, kLocal, state_.step), 1 + kLoopsPerMs * settings_.compute_ms);
    for (std::uint64_t i = 0; i < loops; ++i) computed_ = mix64(computed_ + i);
    return reduce_gradients();
  }

  Next reduce_gradients() {
    std::vector<Gradient> gradients = make_gradients();
    // In a different order on every peer.
    const std::size_t first = below(draw(comm_->self().low, kLocal, state_.step, 1), gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) launch(gradients[(first + i) % gradients.size()]);
    for (const Gradient& gradient : gradients) {
      if (gradient.work) gradient.work.wait();  // even if the first one fails, because the memory of all is lent
    }
    std::uint64_t world = 0;
    std::uint64_t retries = 0;
    std::uint64_t results = 0;
    std::uint64_t contributors = 0;
    for (Gradient& gradient : gradients) {
      if (const Next next = call("gradient", gradient.work); next != Next::kGoOn) return next;
      const Outcome& outcome = gradient.work.outcome();
      if (!is_exact(gradient, state_.step, *outcome.contributors)) {
        parent_.say("E step " + std::to_string(state_.step) + ": " + std::string(name_of(gradient.type)) + " " +
                    std::string(name_of(gradient.op)) + " of " + std::to_string(gradient.count) +
                    " elements is not the fold of its contributors");
        return Next::kWrong;
      }
      world = outcome.world;
      retries += outcome.retries;
      results = mix64(results ^ outcome.hash) ^ checksum(gradient.output);
      contributors = mix64(contributors ^ checksum(bytes_of(*outcome.contributors)));
    }
    ++state_.step;
    for (std::size_t i = 0; i < state_.weights.size(); ++i)
      state_.weights[i] = mix64(state_.weights[i] ^ (results + i));
    const std::uint64_t state = checksum(bytes_of(state_.weights));
    std::ostringstream line;
    line << "S " << state_.step << ' ' << std::hex << state << ' ' << contributors << ' ' << results << std::dec << ' '
         << comm_->view()->number.value << ' ' << world << ' ' << retries;
    parent_.say(line.str());
    return Next::kGoOn;
  }

  std::vector<Gradient> make_gradients() const {
    constexpr std::array<std::uint64_t, 16> kCounts = {0,  1,  2,    3,    4,      5,      6,       7,
                                                       13, 97, 1009, 4096, 10'007, 65'537, 262'144, 1'000'003};
    const std::uint64_t step = state_.step;
    std::vector<Gradient> gradients(step % 3 == 2 ? 4 : 1);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      Gradient& g = gradients[i];
      g.type = static_cast<DataType>((step + i) % kDataTypeCount);
      g.op = static_cast<ReduceOp>((step / kDataTypeCount + i) % kReduceOpCount);
      if (!is_defined(g.type, g.op)) g.op = ReduceOp::kMax;
      g.count = std::min(settings_.max_count, kCounts[below(draw(settings_.seed, kShape, step, i), kCounts.size())]);
      g.tag = Tag{10 + i};
      g.in_place = below(draw(comm_->self().low, kLocal, step, 2, i), 2) == 0;
      g.input.resize(g.count * size_of(g.type));
      g.output.resize(g.in_place ? 0 : g.input.size());
      for (std::uint64_t e = 0; e < g.count; ++e) {
        // floats may be anything, including NaN
        const std::uint64_t bits = element_bits(comm_->self(), step, g.tag, e);
        std::memcpy(g.input.data() + e * size_of(g.type), &bits, size_of(g.type));
      }
      if (g.in_place) g.output.swap(g.input);
    }
    return gradients;
  }

  void launch(Gradient& gradient) {
    LaunchArgs args = collective(wire::Collective::kAllReduce, gradient.type, gradient.tag);
    args.op = gradient.op;
    args.tensors.push_back({gradient.in_place ? gradient.output.data() : gradient.input.data(), gradient.output.data(),
                            gradient.count, 0});
    auto work = comm_->launch(args);
    if (work.ok())
      gradient.work = *work;
    else
      parent_.say("E launch: " + work.error().text);
  }

  // Newcomers take over the members' state.
  Next synchronize() {
    const std::uint64_t step = state_.step;
    auto statement = std::make_shared<state::Statement>();
    statement->manifest.tensors.push_back({"weights", DataType::kU64, state_.weights.size()});
    statement->manifest.values.push_back({"step", state::ValueType::kUint});
    statement->values.push_back(step);
    statement->revision = step;
    statement->strategy = state_.known ? state::Strategy::kPopular : state::Strategy::kReceiveOnly;
    statement->staged = below(draw(comm_->self().low, kLocal, step, 3), 2) == 0;
    LaunchArgs sync = collective(wire::Collective::kSync, DataType::kU8, Tag{2});
    sync.state = std::move(statement);
    const std::size_t bytes = bytes_of(state_.weights).size();
    sync.tensors.push_back({nullptr, state_.weights.data(), bytes, bytes});
    std::uint64_t agreed = step;
    sync.values.push_back(&agreed);
    if (const Next next = call("sync", comm_->launch(sync)); next != Next::kGoOn) return next;
    state_.step = agreed;
    if (state_.known && agreed != step) {
      parent_.say("E members of one cohort stand at different steps");
      return Next::kWrong;
    }
    state_.known = true;
    return Next::kGoOn;
  }

  static LaunchArgs collective(wire::Collective what, DataType type, Tag tag) {
    LaunchArgs args;
    args.collective = what;
    args.type = type;
    args.tag = tag;
    return args;
  }

  Next call(const char* what, const Result<Work>& work) {
    if (work.ok()) return call(what, *work);
    parent_.say("E " + std::string(what) + ": " + work.error().text);
    return Next::kWrong;
  }

  Next call(const char* what, const Work& work) {
    if (!work) return Next::kWrong;
    parent_.say("P step " + std::to_string(state_.step) + " " + what);
    work.wait();
    const Outcome& outcome = work.outcome();
    const std::string words = std::string(what) + ": " + std::string(status_name(outcome.status)) + ": " + outcome.text;
    switch (outcome.status) {
      case Status::kOk: return Next::kGoOn;
      case Status::kOutcomeUnknown:
      case Status::kEvicted:
      case Status::kNotConnected: parent_.say("R " + words); return Next::kRunLost;
      default: break;
    }
    parent_.say("E " + words);
    return Next::kWrong;
  }

  Parent& parent_;
  std::uint64_t computed_ = 0;
  const ChaosSettings settings_;
  const std::string address_;
  const std::string name_;
  const SharedJournal& journal_;
  std::uint32_t founders_;
  State state_;
  std::unique_ptr<Communicator> comm_;
};

}  // namespace

int train(Parent& parent, const ChaosSettings& settings, const std::string& address, const std::string& name,
          std::uint32_t founders, const SharedJournal& journal) {
  return Trainer(parent, settings, address, name, founders, journal).run();
}

}  // namespace lockstep::testing
