// `lockstep bench`, in three parts: bench.cc starts peers, bench_peer.cc runs one peer, bench_subject.cc measures.
#pragma once

#include <cstdint>
#include <string>

#include "transport/destination.h"

namespace lockstep::cli {

// How an all-reduce travels.
struct BenchEncoding {
  std::string up = "native";  // wire formats
  std::string down = "native";
  std::string algorithm = "auto";
  bool residual = false;  // whether the call uses a residual
};

// The sizes that are measured: `begin`, `begin` * `factor`, ..., up to `end`. Bytes.
struct BenchSizes {
  std::uint64_t begin = 4U << 10U;
  std::uint64_t end = 64U << 20U;
  std::uint64_t factor = 4;
};

// Options of the communicator, and the wait for the other peers.
struct BenchNetwork {
  std::uint16_t stripes = 0;
  std::uint64_t bytes_per_second = 0;
  std::uint32_t segment_bytes = 0;
  std::string congestion_control;  // empty: the library's choice
  std::uint32_t spin_us = 50;      // 0: never polls
  double wait_s = 60;
  bool tls = false;
  transport::Protection protection;
};

struct BenchOptions {
  std::string collective = "all_reduce";
  std::string type = "f32";
  std::string op = "sum";
  BenchEncoding encoding;
  BenchSizes sizes;
  std::uint32_t iterations = 0;  // 0: as many as the time allows
  std::uint32_t warmup = 0;      // 0: as many as the time allows
  std::uint32_t peers = 2;
  std::string coordinator;      // empty: bench starts a coordinator and local peers
  std::uint32_t tensors = 1;    // tensors in one all-reduce
  std::uint32_t in_flight = 1;  // calls at the same time
  BenchNetwork network;
  std::string only = "both";  // "out", "in" or "both": the halves of the table
  bool json = false;
  bool say_calls = false;
};

// Joins, measures and leaves; the peer with rank 0 prints. Returns the exit code.
int bench_as_peer(const BenchOptions& options);

}  // namespace lockstep::cli
