#include "tests/processes/attacker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "core/wire/codec.h"
#include "core/wire/message.h"
#include "tests/lab/wan/file.h"
#include "transport/tls/openssl.h"

namespace lockstep::testing {
namespace {

using Bytes = std::vector<std::byte>;
using wan::File;

// An attacker usually runs on another machine: leave the cores to the attacked processes.
constexpr int kNiceness = 10;
// Received bytes are ignored; the end of a stream is noticed.
constexpr std::size_t kReadAtOnce = 16'384;

Bytes bytes_of(std::string_view text) {
  const auto raw = std::as_bytes(std::span(text.data(), text.size()));
  return {raw.begin(), raw.end()};
}

Bytes greeting(const wire::Message& message) {
  Bytes bytes;
  wire::encode(wire::Preamble{}, bytes);
  wire::encode(message, Term{1}, bytes);
  return bytes;
}

// The first message of a TLS client.
Bytes client_hello() {
  transport::tls::begin_openssl();
  const transport::tls::ContextPtr context(SSL_CTX_new(TLS_client_method()));
  const transport::tls::SslPtr ssl(SSL_new(context.get()));
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  (void)SSL_connect(ssl.get());
  Bytes bytes(4096);
  const int size = BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max(size, 0)));
  return bytes;
}

struct Port {
  bool coordinator = false;
  std::vector<File> idle;
  bool has_been_full = false;
};

class Attack {
 public:
  Attack(Parent& parent, const AttackerOptions& options) : parent_(parent), options_(options) {}

  int run() {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    (void)!::nice(kNiceness);
    std::thread ear([this] { hear(); });
    for (;;) {
      const std::map<std::uint16_t, bool> wanted = wait_for_noise();
      if (over_) break;
      std::erase_if(ports_, [&](const auto& entry) { return !wanted.contains(entry.first); });
      for (const auto& [port, coordinator] : wanted) ports_[port].coordinator = coordinator;
      attack_next();
      answer();
    }
    ear.join();
    return 0;
  }

 private:
  // Reads the parent's commands on a separate thread.
  void hear() {
    while (const auto line = parent_.hear()) {
      std::istringstream words(*line);
      std::string verb;
      std::uint64_t number = 0;
      words >> verb >> number;
      const std::lock_guard lock(mutex_);
      const auto port = static_cast<std::uint16_t>(number);
      if (verb == "member") wanted_[port] = false;
      if (verb == "coordinator") wanted_[port] = true;
      if (verb == "forget") wanted_.erase(port);
      if (verb == "filled") asked_ = number;
    }
    const std::lock_guard lock(mutex_);
    over_ = true;
    news_.notify_all();
  }

  std::map<std::uint16_t, bool> wait_for_noise() {
    std::unique_lock lock(mutex_);
    const auto pause = std::chrono::nanoseconds(options_.round.ns) / std::max<std::size_t>(1, wanted_.size());
    news_.wait_for(lock, pause, [this] { return over_; });
    return wanted_;
  }

  // Attacks one port after the other, so that the load is even.
  void attack_next() {
    auto at = ports_.upper_bound(last_);
    if (at == ports_.end()) {
      at = ports_.begin();
      end_old_noise();
      ++round_;
    }
    if (at == ports_.end()) return;
    last_ = at->first;
    fill(at->first, at->second);
    make_noise(at->first, at->second);
  }

  // Reports once all ports have been full and the requested rounds of noise have been sent.
  void answer() {
    const std::lock_guard lock(mutex_);
    if (asked_ == 0 || round_ == answered_) return;
    answered_ = round_;
    const bool full = std::all_of(wanted_.begin(), wanted_.end(), [this](const auto& entry) {
      const auto at = ports_.find(entry.first);
      return at != ports_.end() && at->second.has_been_full;
    });
    if (!full || --asked_ > 0) return;
    parent_.say("filled");
  }

  [[nodiscard]] File knock(std::uint16_t port) const {
    File file(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in from{};
    from.sin_family = AF_INET;
    ::inet_pton(AF_INET, options_.from.c_str(), &from.sin_addr);
    const bool elsewhere = options_.from != "127.0.0.1";
    if (elsewhere && ::bind(file.number(), reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) {
      throw std::runtime_error("cannot bind to " + options_.from);
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(file.number(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) {
      return File(-1);
    }
    return file;
  }

  static bool has_ended(const File& file) {
    std::byte into[kReadAtOnce];
    const ssize_t got = ::recv(file.number(), into, sizeof into, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  }

  void fill(std::uint16_t port, Port& at) {
    std::erase_if(at.idle, has_ended);
    while (at.idle.size() < options_.idle) {
      File file = knock(port);
      if (file.number() < 0) break;
      // Every third connection drips: it sends the first byte of a greeting, and one more byte in each refill.
      if (at.idle.size() % 3 == 0)
        (void)::send(file.number(), options_.tls ? hello_.data() : kPreamble, 1, MSG_NOSIGNAL);
      at.idle.push_back(std::move(file));
    }
    for (std::size_t i = 0; i < at.idle.size(); i += 3) {
      const std::size_t nth = 1 + round_ % (hello_.size() - 1);
      (void)::send(at.idle[i].number(), options_.tls ? hello_.data() + nth : kZero, 1, MSG_NOSIGNAL);
    }
    at.has_been_full = at.has_been_full || at.idle.size() >= options_.idle;
  }

  void make_noise(std::uint16_t port, const Port& at) {
    for (std::uint32_t i = 0; i < options_.hellos; ++i) say(port, hello_);
    say(port, bytes_of("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    wire::Link link;
    link.from = PeerId{1, round_};
    link.to = PeerId{2, 2};
    link.stripes = 2;
    say(port, greeting(link));
    if (!heard_.empty()) say(port, heard_);
    if (!at.coordinator) return;
    listen_to(port);
    for (std::uint32_t i = 0; i < options_.joiners; ++i) {
      wire::Join join;
      join.peer = PeerId{0x5472616e676572, round_ * options_.joiners + i + 1};
      join.name = "nobody";
      join.advertised.port = 1;
      say(port, greeting(join));
    }
  }

  // Closes the connection in the next round.
  void say(std::uint16_t port, const Bytes& bytes) {
    File file = knock(port);
    if (file.number() < 0) return;
    (void)::send(file.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    noise_.push_back(std::move(file));
  }

  // Strangers can learn the status of a run, because a coordinator answers any status request.
  void listen_to(std::uint16_t port) {
    if (round_ % 16 != 0) return;
    File file = knock(port);
    const Bytes question = greeting(wire::StatusRequest{});
    (void)::send(file.number(), question.data(), question.size(), MSG_NOSIGNAL);
    Bytes heard;
    for (pollfd item{file.number(), POLLIN, 0}; ::poll(&item, 1, 100) > 0;) {
      std::byte into[kReadAtOnce];
      const ssize_t got = ::recv(file.number(), into, sizeof into, 0);
      if (got <= 0) break;
      heard.insert(heard.end(), into, into + got);
    }
    if (!heard.empty()) heard_ = std::move(heard);
  }

  void end_old_noise() {
    old_noise_.clear();
    std::swap(noise_, old_noise_);
  }

  static constexpr const std::byte kPreamble[] = {std::byte{'L'}};
  static constexpr const std::byte kZero[] = {std::byte{0}};

  Parent& parent_;
  const AttackerOptions options_;
  const Bytes hello_ = client_hello();
  std::mutex mutex_;
  std::condition_variable news_;
  std::map<std::uint16_t, bool> wanted_;  // port, and whether it belongs to a coordinator
  std::uint64_t asked_ = 0;
  bool over_ = false;

  std::map<std::uint16_t, Port> ports_;
  std::vector<File> noise_;
  std::vector<File> old_noise_;
  Bytes heard_;
  std::uint16_t last_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace

Attacker::Attacker(const AttackerOptions& options)
    : process([options](Parent& parent) { return Attack(parent, options).run(); }) {}

bool Attacker::has_filled(std::uint32_t rounds, Duration within) {
  process.say("filled " + std::to_string(rounds));
  return process.hear(within) == "filled";
}

}  // namespace lockstep::testing
