#include "sim/scenario/keys.h"

#include <algorithm>
#include <span>

namespace lockstep::sim {
namespace {

// The head of a section, which precedes its keys.
struct Section {
  std::string_view name;
  std::string_view head;
};

constexpr Section kSections[] = {
    {"top",
     "# At the top of the file. Times: ns, us, ms, s, min, h; sizes: B, KiB, MiB, GiB; rates: kbit/s, Mbit/s, MB/s, "
     "..."},
    {"net", "# net = { ... } or [net]: every way between two hosts, unless a [[link]] says otherwise."},
    {"link",
     "# [regions]: names for several hosts, each like eu = \"coordinator a b\".\n"
     "# [[link]]: the ways between two hosts or regions."},
    {"line",
     "# [[line]]: the lines of hosts, or of regions: what leaves it, and what comes in, shares them. Only with net = { "
     "model = "
     "\"flow\" }."},
    {"do",
     "# [[do]]: something happens. One action, and when. Hosts are a to z or h1 to h1024, coordinator, any "
     "(whichever), "
     "X, Y, Z\n"
     "# (bound by the seed, each to another one of those who are there from the start), or a region; \"b c\" names "
     "two.\n"
     "# Times may be ranges, of which a seed draws: [\"1s\", \"3s\"]; anew for each host, each pair of hosts and each\n"
     "# of `times`."},
    {"expect", "# [expect]: the counts that the run must reach: 3, \"< 3\", \"<= 3\", \">= 3\", \"> 3\"."},
};

constexpr std::size_t kColumn = 34;

constexpr ScenarioKey kTopKeys[] = {
    {"top", "name", R"("a peer dies")", "of the scenario"},
    {"top", "story", R"("spot instances")", "which real incident it stands for"},
    {"top", "peers", "4", "a to d are there from the start; a range is drawn: [3, 8]"},
    {"top", "groups", "1", "peers are dealt out to so many, in turn; each all-reduces by itself"},
    {"top", "gang_size", "1", "so many neighbours come and go together"},
    {"top", "namesakes", "false",
     "true: the last gang has the name of the first; one of the two waits for the other to go"},
    {"top", "minimum_world", "1", "with fewer members no round commits"},
    {"top", "auto_admit", "false", "true: newcomers are let in without a call of admit"},
    {"top", "transfers", "false", "true: members send tensors to each other, as drawn"},
    {"top", "dials_back", "false", "true: the coordinator finds out which peers can be dialled"},
    {"top", "share_state", "false", "true: newcomers fetch the state from all members, in a sync"},
    {"top", "state_pieces", "8",
     "with share_state: of that state; a piece that is equal here and there is not sent; without it: drawn"},
    {"top", "all_vote", "true", "in a sync; false, with share_state: some peers at times only send or only receive"},
    {"top", "staged", "true",
     "with share_state: pieces land beside the state; false: in it; without it: some syncs this way, some that"},
    {"top", "publish", "false", "true, with share_state: members publish their state, and newcomers prefetch it"},
    {"top", "republish_permille", "0", "with publish: of steps, after which a member publishes its state again"},
    {"top", "watch", "false", "true, with share_state: members watch their state beside every collective"},
    {"top", "small_changes", "false", "true, with share_state: a step changes few pieces of the state"},
    {"top", "ahead_permille", "0",
     "with share_state: of processes that join with progress made elsewhere, which the run may not have"},
    {"top", "stray_permille", "0",
     "with share_state: of syncs, to which a peer brings another byte, another value or an older revision"},
    {"top", "torn_permille", "0", "with share_state: of processes, whose memory holds parts of two states at first"},
    {"top", "fresh_tags", "false", "true: no tag is used twice"},
    {"top", "aged", "false", "true: counters stand where those of peers stand that have run for months"},
    {"top", "stripes", "2", "streams between two neighbours, 1 to 128"},
    {"top", "most_stripes", "0", "streams where lines lose packets, up to 128; 0: always `stripes`"},
    {"top", "segment_bytes", "0", "of pipelining; 0: chosen by size"},
    {"top", "eager_segments", "64", "small tensors that go to a neighbour before it asks; at most 64"},
    {"top", "window", "256", "rounds in flight that begin in launch order; further calls wait; at most 256"},
    {"top", "turns", "0",
     "pieces of an owner on their way at once, with the direct algorithm; 0: as many as there is room for"},
    {"top", "by_rate_bytes", "524288",
     "far all-reduces of so many bytes for each rank: ranks own what their lines carry; a line is measured over four "
     "times as many"},
    {"top", "bytes_per_second", "0", "of segments that a peer sends, at most; 0: no limit"},
    {"top", "rate_window", R"("300ms")", "in which a line is measured, at least"},
    {"top", "steps_per_admit", "2", "steps between two calls of admit"},
    {"top", "commits_after", "3", "that every peer must see after the faults"},
    {"top", "mode", R"("token")", "payloads are tokens (fast), or \"bytes\""},
    {"top", "heartbeat", R"("200ms")",
     "of peers and links; other time-outs follow: after 6 of silence the coordinator takes a peer for lost"},
    {"top", "kernel_rate", R"("5GB/s")", "at which bytes are folded"},
    {"top", "think", R"("100ms")", "between two steps, about"},
    {"top", "call_timeout", R"("30s")", "of every collective; without it: none"},
    {"top", "coordinator_after", R"("3s")", "it starts so late, at most at faults_end; without it: before the peers"},
    {"top", "faults_end", R"("10s")", "then faults stop, the network heals, and all must come to its end"},
    {"top", "net", R"({ profile = "region" })", "see below"},
    {"top", "work", R"(["2x all_reduce 64KiB f32 sum", "barrier", "loop 3"])",
     "the calls that every peer launches in every step (all_reduce 1MiB f32 avg int8/bf16: in wire formats, direct if "
     "less "
     "than 8 bits go up); loop: at least so "
     "many "
     "commits after the faults"},
    {"top", "sends_to_next", "20",
     "small tensors that each member sends to the next one in each step, all at once; the step waits for them"},
    {"top", "regions", R"({ eu = "a b" })", "see below"},
    {"top", "link", R"([{ between = "a b" }])", "see below"},
    {"top", "line", R"([{ of = "a" }])", "see below"},
    {"top", "do", R"([{ crash = "b" }])", "see below"},
    {"top", "expect", "{}", "see below"},
};

constexpr ScenarioKey kNetKeys[] = {
    {"net", "profile", R"("region")",
     "rack (20 to 60 us, 1 GB/s), region (200 us to 2 ms, 200 MB/s) or world (2 to 80 ms, "
     "20 MB/s)"},
    {"net", "latency", R"("20ms")", "one way, of every pair"},
    {"net", "jitter", R"("1ms")", "on top of it, at most"},
    {"net", "rate", R"("100Mbit/s")", "of every pair"},
    {"net", "window", R"("256KiB")", "bytes under way in a stream, at most"},
    {"net", "model", R"("flow")",
     "latency: each pair of hosts has a line of its own; flow: streams share the lines of hosts and regions, and are "
     "held back by "
     "windows, losses and slow start"},
    {"net", "up", R"("20Mbit/s")", "the rate at which a host can send to all others together (flow)"},
    {"net", "down", R"("100Mbit/s")", "the rate at which a host can receive (flow)"},
    {"net", "loss", R"("0.1%")", "of packets, on every way (flow)"},
    {"net", "congestion", R"("cubic")", "the reaction of a stream to losses: reno, cubic or bbr (flow)"},
    {"net", "slow_start", "true", "streams begin slowly, and again after a pause (flow)"},
};

constexpr ScenarioKey kLinkKeys[] = {
    {"link", "between", R"("a b")", "two hosts or regions"},
    {"link", "latency", R"("40ms")", "one way"},
    {"link", "rate", R"("1Gbit/s")", ""},
    {"link", "loss", R"("0.1%")", "beside that of net (flow)"},
};

constexpr ScenarioKey kLineKeys[] = {
    {"line", "of", R"("a b")", "hosts or regions: each host has such a line, ..."},
    {"line", "shared", "false", "... true: all of them share one"},
    {"line", "up", R"("20Mbit/s")", "rate of outgoing bytes; without it: no limit"},
    {"line", "down", R"("100Mbit/s")", "rate of incoming bytes; without it: no limit"},
    {"line", "loss", R"("0.1%")", "of packets, either way"},
};

constexpr ScenarioKey kDoKeys[] = {
    {"do", "at", R"("2s")", "when: so long after the start, before faults_end"},
    {"do", "when", R"("launch 12")",
     "or: at the n-th launch, commit, view or event of the run, or piece of a state that comes"},
    {"do", "delay", R"("3ms")", "so long after that"},
    {"do", "for", R"("5s")",
     "how long it lasts: stall, cut, split, slow, drip, kernels, spoil, strangers, which need it; the time-out of "
     "timeout"},
    {"do", "back", R"("2s")", "starts again after so long: crash, vanish, leave; without it: when the network heals"},
    {"do", "factor", "100", "how many times slower: slow, kernels; how many strangers"},
    {"do", "bytes", "1", "drip: bytes that each stream passes in a second; 1 by default"},
    {"do", "one_in", "100", "lie: one message in so many is a lie; 8 by default"},
    {"do", "answers", "1", "mute: answers that still go through on each stream"},
    {"do", "times", "3", "so often, ..."},
    {"do", "every", R"("500ms")", "... one this long after the other"},
    {"do", "then", R"("cut b -> c for 5s")", "an action in one line, instead of those below"},
    {"do", "crash", R"("b")", "the process dies, its streams are reset"},
    {"do", "vanish", R"("b")", "the machine dies, in silence"},
    {"do", "stall", R"("b")", "stops, and wakes with old state; also \"coordinator\""},
    {"do", "cut", R"("b -> c")", "nothing gets through, one way; \"b <-> c\" or \"b c\": both ways"},
    {"do", "cut-both", R"("b c")", "the same as cut, both ways"},
    {"do", "split", R"("a b | c d")", "cuts all on one side from all on the other"},
    {"do", "reset", R"("b c")", "the streams between them are reset"},
    {"do", "silence", R"("b c")", "the streams between them fall silent for ever; new streams work"},
    {"do", "slow", R"("b c")", "bandwidth falls by factor"},
    {"do", "drip", R"("b -> c")", "streams pass so few bytes, one way; \"b <-> c\" or \"b c\": both ways"},
    {"do", "kernels", R"("b")", "kernels take factor times as long"},
    {"do", "strangers", R"("b c")", "strangers on c's machine keep b's port busy; factor says how many"},
    {"do", "join", R"("e")", "starts, as a newcomer"},
    {"do", "leave", R"("b")", "leaves politely"},
    {"do", "stop", R"("b")", "aborts its oldest call"},
    {"do", "abandon", R"("b")", "gives the run up, whatever it waits for, and starts again soon"},
    {"do", "timeout", R"("b")", "its next collective gets the time-out `for`"},
    {"do", "mismatch", R"("b")", "its next collective has another count or operation than the others'"},
    {"do", "refuse", R"("b")", "its own side refuses its next collective"},
    {"do", "skip", R"("b")", "does not launch its next collective"},
    {"do", "spoil", R"("b")", "with share_state: about half of the pieces of state that it sends are false"},
    {"do", "mute", R"("b")",
     "sends signs of life, and answers no proposal after the first `answers`: a foreign program"},
    {"do", "shut", R"("b")", "lets nobody in: other hosts cannot dial it; streams that are open stay"},
    {"do", "lie", R"("b")",
     "its messages are well formed, and some are lies: a number is another one, a message comes twice, never or late; "
     "then it dies"},
    {"do", "drift", R"("b")",
     "with watch: until its next sync, a byte or a value of the state that it watches is another one"},
    {"do", "flip", R"("b c")", "a bit flips in the next payload or frame on the way from b to c"},
    {"do", "miscompute", R"("b")", "a bit flips in what its kernels make of the next segment"},
};

constexpr ScenarioKey kExpectKeys[] = {
    {"expect", "events", R"("< 100000")", "of the simulator"},
    {"expect", "launches", R"(">= 20")", "of collectives, by each peer"},
    {"expect", "commits", R"(">= 9")", "rounds, not calls"},
    {"expect", "aborts", R"("<= 2")", "rounds"},
    {"expect", "retries", R"(">= 1")", "calls whose round was attempted again"},
    {"expect", "unknown", "0", "calls that ended with `outcome unknown`"},
    {"expect", "received", R"(">= 20")", "receives that ended well"},
    {"expect", "failed_transfers", "0", "sends and receives that ended with an error"},
    {"expect", "views", R"(">= 3")", "memberships"},
    {"expect", "kills", "1", "crash, vanish, abandon"},
    {"expect", "stalls", "1", ""},
    {"expect", "cuts", "1", "cut, and each pair of split"},
    {"expect", "resets", "1", "streams that were reset, or lost with a process"},
    {"expect", "silences", "1", ""},
    {"expect", "leaves", "1", ""},
    {"expect", "joins", "1", ""},
    {"expect", "misuses", "1", "stop, timeout, mismatch, refuse, skip"},
    {"expect", "lost_runs", "0",
     "peers that were taken for lost, or lost the coordinator, while alive; they begin anew"},
    {"expect", "revoked_midway", R"(">= 0")", "buffers taken back while bytes were under way into them"},
    {"expect", "within", R"("90s")", "of simulated time"},
};

}  // namespace

const std::vector<ScenarioKey>& scenario_keys() {
  static const std::vector<ScenarioKey> kKeys = [] {
    std::vector<ScenarioKey> keys;
    for (const std::span<const ScenarioKey> section :
         {std::span<const ScenarioKey>(kTopKeys), std::span<const ScenarioKey>(kNetKeys),
          std::span<const ScenarioKey>(kLinkKeys), std::span<const ScenarioKey>(kLineKeys),
          std::span<const ScenarioKey>(kDoKeys), std::span<const ScenarioKey>(kExpectKeys)}) {
      keys.insert(keys.end(), section.begin(), section.end());
    }
    return keys;
  }();
  return kKeys;
}

std::string scenario_reference() {
  std::string out;
  for (const Section& section : kSections) {
    out.append(out.empty() ? "" : "\n").append(section.head).append("\n");
    for (const ScenarioKey& key : scenario_keys()) {
      if (key.section != section.name) continue;
      std::string line = std::string(key.name) + " = " + std::string(key.value);
      if (!key.what.empty())
        line.append(std::max(kColumn, line.size() + 2) - line.size(), ' ').append("# ").append(key.what);
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace lockstep::sim
