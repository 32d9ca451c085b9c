// The facts that `lockstep doctor` reads about this machine, before it judges any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "core/io/stream.h"

namespace lockstep::cli::doctor {

struct MachineFacts {
  std::string version;       // of Lockstep
  std::string compiler;      // "gcc 12.2.0"
  std::string architecture;  // as the kernel names it: "x86_64"
  std::string kernel;        // "Linux 6.1.0"

  struct Descriptors {
    std::uint64_t soft = 0;  // in force: ulimit -n
    std::uint64_t hard = 0;  // the most that this user may set
  } descriptors;

  struct Congestion {
    std::string in_force;     // of a new stream; empty: not known
    std::string allowed;      // "reno cubic"; empty: not known
    std::error_code for_bbr;  // what a new stream that asks for BBR gets
  } congestion;

  // The sizes in bytes between which the kernel tunes the memory of one stream (tcp(7)).
  struct Tuning {
    std::uint64_t least = 0;
    std::uint64_t initial = 0;
    std::uint64_t most = 0;
  };
  std::optional<Tuning> receive;  // tcp_rmem; nullopt: not known
  std::optional<Tuning> send;     // tcp_wmem

  struct Clock {
    bool known = false;  // whether the kernel tells the two fields below
    bool synchronised = false;
    std::int64_t largest_error_us = 0;
    bool monotonic = true;  // whether readings one after the other never went back
    std::string source;     // "tsc"; empty: not known
  } clock;

  struct Memory {
    std::uint64_t total = 0;  // bytes; 0: not known
    std::uint64_t available = 0;
    std::optional<std::uint64_t> left_in_group;  // of the limit of the control group (a container); nullopt: no limit
  } memory;

  struct OwnAddress {
    std::string interface;
    io::Address address;
  };
  std::vector<OwnAddress> addresses;
  std::vector<io::Address> advertised;  // by which a coordinator that listens on all addresses names itself

  struct Processor {
    bool known = false;  // whether the kernel lists its instructions
    bool has_aes = false;
    unsigned cores = 0;  // that this process may use
  } processor;
};

MachineFacts gather_machine(std::string version);

// ---- parts that read what the kernel writes ----

// "4096 131072 6291456".
std::optional<MachineFacts::Tuning> tuning_of(const std::string& line);
// /proc/meminfo.
MachineFacts::Memory memory_of(const std::string& meminfo);
// /proc/cpuinfo.
MachineFacts::Processor processor_of(const std::string& cpuinfo);

}  // namespace lockstep::cli::doctor
