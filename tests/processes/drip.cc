// Lines that are nearly dead (rule 51 of docs/protocol.md): four peers all-reduce without a pause, and the lines of one
// of them begin to pass a byte a second. Measures the longest step of the other three, and checks that the run goes on,
// and that the status of the coordinator names the victim. Exits with 1 if a step takes longer than --limit-ms.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "tests/processes/coordinator_process.h"
#include "tests/support/proxy.h"
#include "transport/communicator.h"
#include "transport/status_client.h"

namespace lockstep::testing {
namespace {

constexpr std::size_t kWorld = 4;
constexpr Duration kPatience = seconds(30);
constexpr std::uint64_t kStepsBefore = 20;

struct Settings {
  std::string lines = "all";  // all, data, to, from, coordinator
  std::uint64_t rate = 1;     // bytes a second
  std::size_t victim = 0;     // its rank
  Duration lasts = seconds(60);
  std::uint64_t steps = 0;  // enough after the first that is late; 0: for as long as it lasts
  Duration limit = milliseconds(2000);
  std::uint64_t bytes = 1U << 20U;
};

// All-reduces until it is stopped; prints one line per call: world size and time of the end.
int reduce_for_ever(Parent& parent, const std::string& address, std::uint16_t port, std::uint16_t advertised,
                    std::size_t index, std::uint64_t count) {
  transport::CommunicatorOptions options;
  options.listen_host = "127.0.0.1";
  options.peer.name = std::string(1, static_cast<char>('a' + index));
  options.peer.founders = kWorld;
  options.peer.first_port = port;
  options.peer.advertised.port = advertised;
  auto comm = transport::Communicator::create(options);
  if (!comm.ok()) return 1;
  const transport::Work connecting = (*comm)->connect(address);
  connecting.wait();
  if (connecting.outcome().status != Status::kOk) return 1;
  std::vector<float> input(count, 1.0F);
  std::vector<float> output(count);
  for (;;) {
    transport::LaunchArgs args;
    args.collective = wire::Collective::kAllReduce;
    args.type = DataType::kF32;
    args.tensors.push_back({input.data(), output.data(), count, 0});
    const auto work = (*comm)->launch(args);
    if (!work.ok()) {
      parent.say("E " + work.error().text);
      return 1;
    }
    work->wait();
    const transport::Outcome& outcome = work->outcome();
    if (outcome.status != Status::kOk) {
      parent.say("E " + std::string(status_name(outcome.status)) + ": " + outcome.text);
      return 1;
    }
    const auto right = static_cast<float>(outcome.world);
    if (output.front() != right || output.back() != right) {
      parent.say("E a sum that is not that of its contributors");
      return 1;
    }
    parent.say("C " + std::to_string(outcome.world) + " " + std::to_string(monotonic_now().ns));
  }
}

class Bench {
 public:
  explicit Bench(const Settings& settings) : settings_(settings) {
    for (std::size_t i = 0; i < kWorld; ++i) {
      ports_.push_back(std::make_unique<ReservedPort>());
      proxies_.push_back(std::make_unique<Proxy>(ports_[i]->port()));
      const std::size_t colon = coordinator_.address.rfind(':');
      const auto to_coordinator = static_cast<std::uint16_t>(std::stoul(coordinator_.address.substr(colon + 1)));
      coordinators_.push_back(std::make_unique<Proxy>(to_coordinator));
      const std::string address = "127.0.0.1:" + std::to_string(coordinators_[i]->port());
      const std::uint64_t count = std::max<std::uint64_t>(1, settings.bytes / sizeof(float));
      peers_.push_back(std::make_unique<Process>(
          [address, port = ports_[i]->port(), at = proxies_[i]->port(), i, count](Parent& parent) {
            return reduce_for_ever(parent, address, port, at, i, count);
          }));
    }
    for (auto& proxy : proxies_) proxy->start();  // no child is forked after this
    for (auto& proxy : coordinators_) proxy->start();
  }

  int run() {
    last_.assign(kWorld, monotonic_now());
    steps_.assign(kWorld, 0);
    if (!follow(kStepsBefore, monotonic_now() + kPatience, kWorld)) return 1;
    const auto before = transport::query_status(coordinator_.address, seconds(10));
    if (!before.ok() || before->view.members.size() != kWorld) return fail("the run did not begin");
    const wire::Member victim = before->view.members[settings_.victim];
    const auto index = static_cast<std::size_t>(victim.name.front() - 'a');
    longest_ = {};
    world_ = 0;
    begin_drip(victim.id, index);
    const Instant began = monotonic_now();
    std::fill(steps_.begin(), steps_.end(), 0);
    const bool whole = settings_.steps == 0;
    if (!follow(whole ? UINT64_MAX : settings_.steps, began + settings_.lasts, index) && !failed_.empty()) {
      return fail(failed_);
    }
    const auto after = transport::query_status(coordinator_.address, seconds(10));
    if (!after.ok()) return fail("no status: " + after.error().text);
    std::string trouble;
    bool named = false;
    for (const wire::Trouble& one : after->troubles) {
      trouble += (trouble.empty() ? "" : "; ") + one.text;
      named = named || one.peer == victim.id || one.other == victim.id;
    }
    const bool is_in = std::any_of(after->view.members.begin(), after->view.members.end(),
                                   [&](const wire::Member& member) { return member.id == victim.id; });
    std::printf(
        "%s lines of rank %zu at %llu B/s for %.1f s: the longest step of the others took %.0f ms (limit %.0f), %llu "
        "steps; the victim is %s; status: %s\n",
        settings_.lines.c_str(), settings_.victim, static_cast<unsigned long long>(settings_.rate),
        (monotonic_now() - began).seconds(), longest_.seconds() * 1e3, settings_.limit.seconds() * 1e3,
        static_cast<unsigned long long>(*std::max_element(steps_.begin(), steps_.end())), is_in ? "in" : "out",
        trouble.empty() ? "nothing" : trouble.c_str());
    if (longest_ > settings_.limit) return fail("a step took longer than the limit");
    if (longest_ > milliseconds(500) && !named) return fail("the status does not name the victim");
    return 0;
  }

 private:
  static int fail(const std::string& why) {
    std::printf("FAILED: %s\n", why.c_str());
    return 1;
  }

  void begin_drip(PeerId victim, std::size_t index) {
    using Towards = Proxy::Towards;
    const bool to = settings_.lines != "from";
    const bool from = settings_.lines != "to";
    if (settings_.lines != "coordinator") {
      const auto both = to && from ? Towards::kBoth : to ? Towards::kTarget : Towards::kDialler;
      const auto dialled = to && from ? Towards::kBoth : to ? Towards::kDialler : Towards::kTarget;
      proxies_[index]->drip(settings_.rate, both);
      for (std::size_t i = 0; i < kWorld; ++i) {
        if (i != index) proxies_[i]->drip(settings_.rate, dialled, victim);
      }
    }
    if (settings_.lines == "all" || settings_.lines == "coordinator") coordinators_[index]->drip(settings_.rate);
  }

  // Reads what the peers but `except` say until each has made so many steps. False: not by then.
  bool follow(std::uint64_t steps, Instant until, std::size_t except) {
    while (monotonic_now() < until) {
      bool enough = true;
      for (std::size_t i = 0; i < kWorld; ++i) {
        if (i == except) continue;
        if (!take(i)) return false;
        enough = enough && steps_[i] >= steps && (except == kWorld || longest_ > milliseconds(300));
      }
      if (enough) return true;
    }
    for (std::size_t i = 0; i < kWorld; ++i) {  // a step that is under way
      if (i != except) longest_ = std::max(longest_, monotonic_now() - last_[i]);
    }
    return steps == UINT64_MAX || longest_ <= milliseconds(300);
  }

  bool take(std::size_t i) {
    for (Duration wait = milliseconds(2); const auto line = peers_[i]->hear(wait); wait = {}) {
      std::string kind;
      Instant at;
      std::istringstream(*line) >> kind >> world_ >> at.ns;
      if (kind != "C") {
        failed_ = *line;
        return false;
      }
      longest_ = std::max(longest_, at - last_[i]);
      last_[i] = at;
      steps_[i] += 1;
    }
    return true;
  }

  const Settings settings_;
  CoordinatorProcess coordinator_;
  std::vector<std::unique_ptr<ReservedPort>> ports_;
  std::vector<std::unique_ptr<Proxy>> proxies_;       // before each peer
  std::vector<std::unique_ptr<Proxy>> coordinators_;  // before the coordinator, one for each peer
  std::vector<std::unique_ptr<Process>> peers_;
  std::vector<Instant> last_;
  std::vector<std::uint64_t> steps_;
  Duration longest_;
  std::size_t world_ = 0;
  std::string failed_;
};

int usage() {
  std::fprintf(stderr,
               "usage: lockstep_drip [--lines all|data|to|from|coordinator] [--rate B/s] [--victim RANK]\n"
               "                     [--seconds S] [--steps N] [--limit-ms MS] [--bytes N]\n"
               "--steps: end once every other peer has made so many steps after a late one\n");
  return 2;
}

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  lockstep::testing::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (i + 1 == argc) return lockstep::testing::usage();
    const char* const value = argv[++i];
    const std::uint64_t number = std::strtoull(value, nullptr, 10);
    if (flag == "--lines") {
      settings.lines = value;
    } else if (flag == "--rate") {
      settings.rate = std::max<std::uint64_t>(1, number);
    } else if (flag == "--victim") {
      settings.victim = number % lockstep::testing::kWorld;
    } else if (flag == "--seconds") {
      settings.lasts = lockstep::seconds(static_cast<std::int64_t>(number));
    } else if (flag == "--steps") {
      settings.steps = number;
    } else if (flag == "--limit-ms") {
      settings.limit = lockstep::milliseconds(static_cast<std::int64_t>(number));
    } else if (flag == "--bytes") {
      settings.bytes = number;
    } else {
      return lockstep::testing::usage();
    }
  }
  return lockstep::testing::Bench(settings).run();
}
