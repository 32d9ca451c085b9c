#include "bindings/swarm/guest.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <variant>

#include "core/base/assert.h"
#include "core/trace/event.h"
#include "sim/workload/text.h"
#include "transport/driver.h"

namespace lockstep::swarm {
namespace {

// Translates the places of a request to the world's memory.
class Translation {
 public:
  Translation(const transport::Memory& from, sim::Memory& to, const std::vector<BufferId>& buffers) {
    for (const BufferId id : buffers) {
      lent_.push_back(to.borrow(from.whole(id)));
      names_.emplace(id.value, lent_.back());
    }
  }

  void apply(BufferRef& where) const {
    if (where.length > 0) where.id = names_.at(where.id.value);
  }

  void apply(ring::Request& request) const {
    for (ring::Tensor& tensor : request.tensors) {
      apply(tensor.send);
      apply(tensor.recv);
      apply(tensor.residual);
    }
    apply(request.scratch);
    if (request.watch == nullptr) return;
    auto watched = std::make_shared<ring::Watched>(*request.watch);
    for (BufferRef& where : watched->memory) apply(where);
    request.watch = std::move(watched);
  }

  std::vector<BufferId> take() { return std::move(lent_); }

 private:
  std::vector<BufferId> lent_;
  std::unordered_map<std::uint32_t, BufferId> names_;
};

}  // namespace

void Guest::submit(std::shared_ptr<transport::Call> call, peer::Input input) {
  Translation translation(memory_, world_.memory_of(process_), call->loans.buffers);
  if (auto* const launch = std::get_if<peer::Launch>(&input)) translation.apply(launch->request);
  if (auto* const publish = std::get_if<peer::Publish>(&input)) translation.apply(publish->request);
  if (auto* const prefetch = std::get_if<peer::Prefetch>(&input)) translation.apply(prefetch->request);
  if (std::holds_alternative<peer::Leave>(input)) leaving_ = true;
  calls_.emplace(world_.next_call(process_).value, std::move(call));
  world_.call(process_, std::move(input), translation.take());
}

void Guest::leave_politely() {
  leaving_ = true;
  world_.call(process_, peer::Leave{});
}

void Guest::stop(CallId call, const std::string& why) {
  const auto found = std::ranges::find_if(calls_, [&](const auto& entry) { return entry.second->id() == call; });
  if (found != calls_.end()) world_.stop_call(process_, CallId{found->first}, why);
}

void Guest::stop_call(CallId call) { world_.stop_call(process_, call, "the swarm's conditions asked for it"); }

void Guest::abandon() { world_.abandon(process_, "the swarm's conditions asked for it"); }

void Guest::fail_all(const std::string& why) {
  phase_ = Phase::kOver;
  waiting_ = {};
  const std::deque<sim::Call>& made = world_.calls_of(process_);
  for (auto& [id, call] : std::exchange(calls_, {})) {
    peer::Outcome outcome;
    const bool begun = made.at(id - 1).kind == sim::CallKind::kCollective && view_ != nullptr;
    outcome.status = begun ? Status::kOutcomeUnknown : Status::kNotConnected;
    outcome.state_defined = !call->loans.writes_state;
    outcome.text = why;
    transport::end_call(*call, std::move(outcome), memory_);
  }
}

std::vector<std::string> Guest::open_calls() const {
  std::vector<std::string> words;
  for (const auto& [id, ours] : calls_) {
    const sim::Call& call = world_.calls_of(process_).at(id - 1);
    words.push_back(sim::text_of(call) + " since " + sim::text_of(call.made));
  }
  return words;
}

void Guest::on_complete(const sim::Call& call) {
  const auto found = calls_.find(call.id.value);
  if (found == calls_.end()) return;  // leave_politely()
  const std::shared_ptr<transport::Call> ended = std::move(found->second);
  calls_.erase(found);
  transport::end_call(*ended, *call.outcome, memory_);
  host_.call_ended();
}

void Guest::on_view(const std::shared_ptr<const wire::View>& view) {
  view_ = view;
  if (phase_ == Phase::kConnecting) phase_ = Phase::kStepping;
}

void Guest::on_pending(const peer::PendingChanged& pending) { waiting_ = pending; }

void Guest::on_progress(const peer::Progress& progress) {
  const auto call = calls_.find(progress.call.value);
  if (call != calls_.end()) call->second->set_progress({progress.bytes, progress.of});
}

void Guest::on_trace(const trace::Event& event) {
  if (log_) log_(trace::to_line(event));
}

void Guest::on_over(const peer::RunOver& over) {
  phase_ = Phase::kOver;
  waiting_ = {};
  if (log_) log_("the run is over for this peer: " + over.text);
  host_.run_over();
}

}  // namespace lockstep::swarm
