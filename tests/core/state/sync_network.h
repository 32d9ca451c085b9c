// Peers that share a state, in memory: a network that delivers in any order, and peers that die at any time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/overloaded.h"
#include "core/base/rng.h"
#include "core/kernels/run_job.h"
#include "core/state/sync.h"
#include "core/wire/limits.h"

namespace lockstep::state {

inline constexpr std::uint32_t kStaging = 1000;

using Bytes = std::vector<std::byte>;

inline Bytes filled(std::size_t size, std::uint64_t with) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; i += 4096) bytes[i] = static_cast<std::byte>(mix64(with ^ i / 4096));
  return bytes;
}

// One peer: its tensors and its statement.
struct Host {
  Host(PeerId peer, std::vector<std::uint64_t> sizes, std::uint64_t content, std::uint64_t revision,
       bool staged = false, Strategy strategy = Strategy::kPopular)
      : id(peer) {
    statement.revision = revision;
    statement.staged = staged;
    statement.strategy = strategy;
    statement.manifest.values = {{"step", ValueType::kUint}};
    statement.values = {revision};
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      statement.manifest.tensors.push_back({"t" + std::to_string(t), DataType::kU8, sizes[t], false});
      tensors.push_back(filled(sizes[t], mix64(content) + t));
      memory.push_back({BufferId{static_cast<std::uint32_t>(t)}, 0, sizes[t]});
    }
    BufferRef beside{};
    if (staged) {
      staging.resize(staging_bytes(statement.manifest));
      beside = {BufferId{kStaging}, 0, staging.size()};
    }
    sync = std::make_unique<Sync>(statement, memory, beside, id, seconds(1), seconds(3));
  }

  std::span<std::byte> at(BufferRef ref) {
    if (ref.length == 0) return {};
    Bytes& of = ref.id.value == kStaging ? staging : tensors.at(ref.id.value);
    return std::span(of).subspan(ref.offset, ref.length);
  }

  PeerId id;
  Statement statement;
  std::vector<Bytes> tensors;
  std::vector<BufferRef> memory;
  Bytes staging;
  std::unique_ptr<Sync> sync;
  bool dead = false;
  int pieces_until_death = -1;  // number of pieces that it sends before its death
  bool corrupts = false;        // it sends corrupt bytes
  int spoils = 0;               // number of pieces that it corrupts
  bool lies = false;            // it sends wrong digests
};

// Delivers messages in any order that streams allow, drawn from a seed.
class Network {
 public:
  explicit Network(std::uint64_t seed) : seed_(seed) {}

  Host& add(std::vector<std::uint64_t> sizes, std::uint64_t content, std::uint64_t revision, bool staged = false,
            Strategy strategy = Strategy::kPopular) {
    const PeerId id{0, hosts.size() + 1};
    return *hosts.emplace_back(std::make_unique<Host>(id, std::move(sizes), content, revision, staged, strategy));
  }

  // Runs one attempt among the live peers. Returns whether all of them have the elected state. A death ends the
  // attempt.
  bool attempt(const std::set<PeerId>& agreed = {}) {
    ++attempt_;
    std::vector<Claim> claims;
    for (Host* host : alive()) {
      while (!host->sync->digested()) {
        std::vector<KernelJob> jobs;
        host->sync->digest_some(jobs);
        run(*host, jobs);
      }
      claims.push_back(host->sync->claim());
    }
    const auto votes = votes_of(claims, agreed);
    if (!std::holds_alternative<Votes>(votes)) return false;
    const auto& cast = std::get<Votes>(votes);
    elected = elect(claims, cast, cast.rbegin()->first, {});
    std::vector<Host*> told = alive();  // peers that do not know the election yet; others may ask them before
    deaths_ = 0;
    while (!is_over()) {
      if (!told.empty() && (queues_.empty() || draw_below(8) == 0)) {
        Host* host = told.back();
        told.pop_back();
        host->sync->elected({{}, AttemptId{attempt_}}, elected);
      } else if (!queues_.empty()) {
        deliver();
      } else {
        now_ = now_ + seconds(1);  // nothing is under way: a peer that waits has a deadline
        bool waits = false;
        for (Host* host : alive()) {
          waits = waits || host->sync->deadline() != kNever;
          if (host->sync->deadline() <= now_) host->sync->on_timer(now_);
        }
        if (!waits) break;
      }
      for (Host* host : alive()) {
        Sync::Messages out;
        host->sync->ask(linked(*host), now_, out);
        send(*host, out);
      }
    }
    queues_.clear();
    const bool over = deaths_ == 0 && is_over();
    stranded.clear();
    for (Host* host : alive()) {
      if (host->sync->is_stranded()) stranded.push_back(host->id);
      if (over && host->statement.staged) {
        std::vector<KernelJob> jobs;
        for (host->sync->swap_some(jobs); !jobs.empty(); host->sync->swap_some(jobs)) {
          EXPECT_LE(jobs.size(), 8U) << "streams wait for the jobs";
          run(*host, jobs);
        }
      }
      if (over) continue;
      host->sync->stop();
      host->sync->stream_closed(StreamId{1});
      host->sync->begin_again();
    }
    return over;
  }

  std::vector<Host*> alive() {
    std::vector<Host*> list;
    for (const auto& host : hosts) {
      if (!host->dead) list.push_back(host.get());
    }
    return list;
  }
  void expect_alike() {
    for (const Host* host : alive()) {
      EXPECT_TRUE(host->sync->defined());
      EXPECT_EQ(host->sync->root(), elected.root);
      EXPECT_EQ(host->sync->revision(), elected.revision);
      EXPECT_EQ(host->sync->values(), std::vector{elected.revision});
      EXPECT_EQ(host->tensors, alive().front()->tensors);
    }
  }

  std::vector<std::unique_ptr<Host>> hosts;
  Elected elected;
  std::uint64_t pieces_sent = 0;
  std::vector<PeerId> stranded;               // at the end of the last attempt
  std::set<std::pair<PeerId, PeerId>> apart;  // have no link

 private:
  struct Parcel {
    std::optional<wire::Message> message;
    std::optional<wire::Segment> segment;
    Bytes payload;
  };

  std::uint64_t draw_below(std::uint64_t bound) { return below(draw(seed_, 1, ++draws_), bound); }
  Host& host(PeerId id) { return *hosts[id.low - 1]; }
  std::set<PeerId> linked(const Host& of) {
    std::set<PeerId> others;
    for (const Host* other : alive()) {
      const bool is_linked = !apart.contains({of.id, other->id}) && !apart.contains({other->id, of.id});
      if (other->id != of.id && is_linked) others.insert(other->id);
    }
    return others;
  }
  bool is_over() {
    const auto all = alive();
    return deaths_ > 0 || std::all_of(all.begin(), all.end(), [](const Host* h) { return h->sync->complete(); });
  }

  void run(Host& host, std::vector<KernelJob>& jobs) {
    for (const KernelJob& job : jobs) {
      const JobMemory memory = memory_of(job.work);
      const JobResult result = run_job(job.work, host.at(memory.into), host.at(memory.from), {});
      (void)host.sync->job_done(job.token, result);
    }
    jobs.clear();
  }
  void send(Host& from, Sync::Messages& messages) {
    for (auto& [to, message] : messages) {
      if (auto* digests = std::get_if<wire::PieceDigests>(&message); digests != nullptr && from.lies) {
        digests->digests.back().low ^= 1U;
      }
      if (const auto* ask = std::get_if<wire::AskPieces>(&message)) {
        EXPECT_LE(ask->pieces.size(), kMaxPiecesAsked);
      }
      queues_[{from.id, to}].push_back({std::move(message), {}, {}});
    }
  }
  void send_pieces(Host& from, PeerId to) {
    while (const auto next = from.sync->next(to)) {
      const auto bytes = from.at(next->payload);
      Parcel parcel{
          {},
          wire::Segment{
              {}, {}, wire::Phase::kState, SegmentIndex{next->piece.value}, static_cast<std::uint32_t>(bytes.size())},
          Bytes(bytes.begin(), bytes.end())};
      if (from.corrupts || from.spoils-- > 0) parcel.payload.back() ^= std::byte{1};
      queues_[{from.id, to}].push_back(std::move(parcel));
      ++pieces_sent;
      if (from.pieces_until_death >= 0 && from.pieces_until_death-- == 0) return die(from);
    }
  }
  void die(Host& host) {
    host.dead = true;
    ++deaths_;
  }
  void deliver() {
    auto at = queues_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(draw_below(queues_.size())));
    const PeerId from = at->first.first;  // no binding: older clang captures none
    const PeerId to = at->first.second;
    Parcel parcel = std::move(at->second.front());
    at->second.erase(at->second.begin());
    if (at->second.empty()) queues_.erase(at);
    Host& receiver = host(to);
    if (receiver.dead) return;
    if (parcel.segment) return land(receiver, from, parcel);
    Sync::Messages out;
    const bool good = std::visit(
        overloaded{[&](const wire::AskDigests& in) { return receiver.sync->on_ask(from, in); },
                   [&](const wire::PieceDigests& in) { return receiver.sync->on_digests(from, in, now_, out); },
                   [&](const wire::AskPieces& in) { return receiver.sync->on_ask(from, in); },
                   [&](const wire::HavePieces& in) { return receiver.sync->on_have(from, in); },
                   [](const auto&) { return false; }},
        *parcel.message);
    EXPECT_TRUE(good || host(from).lies);
    if (!good) receiver.sync->distrust(from);
    send(receiver, out);
    for (Host* other : alive()) {
      if (!receiver.dead && other->id != to) send_pieces(receiver, other->id);
    }
  }
  void land(Host& receiver, PeerId from, const Parcel& parcel) {
    const auto place = receiver.sync->begin(from, *parcel.segment, StreamId{1}, now_);
    ASSERT_NE(place.landing, Sync::Landing::kNonsense);
    if (place.landing == Sync::Landing::kSink) return;
    std::copy(parcel.payload.begin(), parcel.payload.end(), receiver.at(place.into).begin());
    std::vector<KernelJob> jobs;
    receiver.sync->landed(from, *parcel.segment, false, now_, jobs);
    run(receiver, jobs);
  }

  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  std::uint64_t attempt_ = 0;
  int deaths_ = 0;
  Instant now_;
  std::map<std::pair<PeerId, PeerId>, std::vector<Parcel>> queues_;
};

}  // namespace lockstep::state
