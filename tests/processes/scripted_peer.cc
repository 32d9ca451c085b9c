#include "tests/processes/scripted_peer.h"

#include <sstream>
#include <vector>

#include "transport/communicator.h"

namespace lockstep::testing {
namespace {

using transport::Communicator;
using transport::Work;

void answer(Parent& parent, const transport::Outcome& outcome, bool intact, double first) {
  std::ostringstream line;
  line << static_cast<int>(outcome.status) << ' ' << outcome.world << ' ' << outcome.retries << ' ' << intact << ' '
       << first << ' ' << outcome.text;
  parent.say(line.str());
}

void end_and_answer(Parent& parent, const Work& work) {
  work.wait();
  answer(parent, work.outcome(), true, 0);
}

template <typename T>
void all_reduce(Parent& parent, Communicator& comm, const ReduceOrder& order) {
  const std::vector<T> ones(order.count, T{1});
  for (std::uint32_t n = 0; n < order.times; ++n) {
    std::vector<T> input = ones;
    std::vector<T> output(order.in_place ? 0 : order.count);
    transport::LaunchArgs args;
    args.collective = wire::Collective::kAllReduce;
    args.type = order.type;
    args.retry = order.retry;
    args.timeout = order.timeout;
    T* const result = order.in_place ? input.data() : output.data();
    args.tensors.push_back({input.data(), result, order.count, 0});
    const auto work = comm.launch(args);
    if (!work.ok()) {
      transport::Outcome refused;
      refused.status = work.error().status;
      refused.text = work.error().text;
      return answer(parent, refused, true, 0);
    }
    if (n == 0) parent.say("launched");
    work->wait();
    const transport::Outcome& outcome = work->outcome();
    if (outcome.status != Status::kOk || n + 1 == order.times) {
      return answer(parent, outcome, input == ones, order.count > 0 ? static_cast<double>(*result) : 0);
    }
    if (n == 0) parent.say("going");
  }
}

int obey(Parent& parent, const ScriptedPeerOptions& given, const SharedJournal& journal) {
  transport::CommunicatorOptions options;
  options.peer.name = given.name;
  options.peer.founders = given.founders;
  options.listen_host = "127.0.0.1";
  options.peer.first_port = given.port;
  options.peer.advertised.port = given.advertised_port;
  options.journal = [&](std::string_view line) { journal.write(line); };
  if (given.link_heartbeat.ns > 0) options.peer.link_heartbeat = given.link_heartbeat;
  if (given.link_silence.ns > 0) options.peer.link_silence = given.link_silence;
  if (given.link_timeout.ns > 0) options.peer.link_timeout = given.link_timeout;
  options.peer.segment_bytes = given.segment_bytes;
  auto made = Communicator::create(options);
  if (!made.ok()) return 1;
  Communicator& comm = **made;
  while (const auto line = parent.hear()) {
    std::istringstream words(*line);
    std::string verb;
    words >> verb;
    if (verb == "connect") {
      std::string address;
      Duration timeout;
      words >> address >> timeout.ns;
      end_and_answer(parent, comm.connect(address, timeout));
    } else if (verb == "admit") {
      std::uint32_t at_least = 1;
      words >> at_least;
      end_and_answer(parent, comm.admit(at_least));
    } else if (verb == "leave") {
      end_and_answer(parent, comm.leave());
    } else if (verb == "all_reduce") {
      ReduceOrder order;
      bool wide = false;
      words >> order.count >> wide >> order.retry >> order.in_place >> order.timeout.ns >> order.times;
      order.type = wide ? DataType::kF64 : DataType::kF32;
      wide ? all_reduce<double>(parent, comm, order) : all_reduce<float>(parent, comm, order);
    }
  }
  return 0;
}

}  // namespace

ScriptedPeer::ScriptedPeer(const ScriptedPeerOptions& options)
    : process([this, options](Parent& parent) { return obey(parent, options, journal); }) {}

void ScriptedPeer::connect(const std::string& coordinator, Duration timeout) {
  process.say("connect " + coordinator + " " + std::to_string(timeout.ns));
}
void ScriptedPeer::admit(std::uint32_t at_least) { process.say("admit " + std::to_string(at_least)); }
void ScriptedPeer::leave() { process.say("leave"); }

void ScriptedPeer::all_reduce(const ReduceOrder& order) {
  std::ostringstream line;
  line << "all_reduce " << order.count << ' ' << (order.type == DataType::kF64) << ' ' << order.retry << ' '
       << order.in_place << ' ' << order.timeout.ns << ' ' << order.times;
  process.say(line.str());
}

bool ScriptedPeer::heard(const std::string& news) {
  for (;;) {
    const auto line = process.hear(seconds(30));
    if (!line || *line == news) return line.has_value();
  }
}

Ended ScriptedPeer::ended(Duration within) {
  Ended ended;
  auto line = process.hear(within);
  while (line == "launched" || line == "going") line = process.hear(within);
  if (!line) return ended;
  std::istringstream words(*line);
  int status = 0;
  words >> status >> ended.world >> ended.retries >> ended.intact >> ended.first;
  ended.came = !words.fail();
  ended.status = static_cast<Status>(status);
  std::getline(words >> std::ws, ended.text);
  return ended;
}

}  // namespace lockstep::testing
