#include "bindings/python/native/result.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "bindings/python/native/convert.h"
#include "bindings/python/native/error.h"

namespace lockstep::python {
namespace {

// A tuple of Python's integers.
Numbers numbers_of(const std::vector<std::uint64_t>& values) {
  Numbers numbers(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) numbers[i] = py::int_(values[i]);
  return numbers;
}

constexpr std::size_t kMostMembers = 1024;  // members of one view: the limit of lockstep_wait_for_world()

}  // namespace

lockstep_result& blank_result() {
  static thread_local std::array<lockstep_peer_id, kMostMembers> contributors;
  static thread_local std::array<std::uint64_t, kMostMembers> blocks;
  static thread_local std::array<lockstep_peer_id, kMostMembers> newcomers;
  static thread_local std::array<std::uint64_t, kMostMembers> rates;
  static thread_local lockstep_result result;
  result = LOCKSTEP_RESULT_INIT;
  result.contributors = contributors.data();
  result.contributors_capacity = contributors.size();
  result.blocks = blocks.data();
  result.blocks_capacity = blocks.size();
  result.newcomers = newcomers.data();
  result.newcomers_capacity = newcomers.size();
  result.rates = rates.data();
  result.rates_capacity = rates.size();
  return result;
}

Result::Result(const lockstep_result& from)
    : raw(from),
      contributors(from.contributors,
                   from.contributors + std::min<std::size_t>(from.contributors_count, from.contributors_capacity)),
      blocks(from.blocks, from.blocks + std::min(from.blocks_count, from.blocks_capacity)),
      newcomers(from.newcomers, from.newcomers + std::min<std::size_t>(from.newcomers_count, from.newcomers_capacity)),
      rates(from.rates, from.rates + std::min(from.rates_count, from.rates_capacity)),
      state_difference(from.state_difference != nullptr ? from.state_difference : ""),
      congestion_control(from.congestion_control != nullptr ? from.congestion_control : "") {}

py::tuple Result::state() const {
  lockstep_result numbers = raw;
  numbers.struct_size = sizeof numbers;
  numbers.contributors = nullptr;
  numbers.blocks = nullptr;
  numbers.newcomers = nullptr;
  numbers.rates = nullptr;
  numbers.state_difference = nullptr;
  numbers.congestion_control = nullptr;
  return py::make_tuple(py::bytes(reinterpret_cast<const char*>(&numbers), sizeof numbers), to_python(contributors),
                        numbers_of(blocks), to_text(state_difference), output, to_python(newcomers), numbers_of(rates),
                        to_text(congestion_control));
}

std::shared_ptr<Result> Result::of_state(const py::tuple& state) {
  const auto bytes = py::cast<std::string>(state[0]);
  lockstep_result numbers = LOCKSTEP_RESULT_INIT;
  std::memcpy(static_cast<void*>(&numbers), bytes.data(), std::min(bytes.size(), sizeof numbers));
  numbers.struct_size = sizeof numbers;
  const auto ids_in = [&state](std::size_t place) {
    std::vector<lockstep_peer_id> ids;
    if (place >= state.size()) return ids;  // of a version that had none
    for (const py::handle& id : py::cast<py::tuple>(state[place])) ids.push_back(to_peer_id(id));
    return ids;
  };
  std::vector<lockstep_peer_id> ids = ids_in(1);
  std::vector<lockstep_peer_id> newcomers = ids_in(5);
  const auto numbers_in = [&state](std::size_t place) {
    std::vector<std::uint64_t> values;
    if (place >= state.size()) return values;
    for (const py::handle& value : py::cast<py::tuple>(state[place])) values.push_back(py::cast<std::uint64_t>(value));
    return values;
  };
  std::vector<std::uint64_t> sizes = numbers_in(2);
  std::vector<std::uint64_t> rates = numbers_in(6);
  const auto difference = py::cast<std::string>(state[3]);
  numbers.contributors = ids.data();
  numbers.contributors_count = static_cast<std::uint32_t>(ids.size());
  numbers.contributors_capacity = ids.size();
  numbers.newcomers = newcomers.data();
  numbers.newcomers_count = static_cast<std::uint32_t>(newcomers.size());
  numbers.newcomers_capacity = newcomers.size();
  numbers.blocks = sizes.data();
  numbers.blocks_count = numbers.blocks_capacity = sizes.size();
  numbers.rates = rates.data();
  numbers.rates_count = numbers.rates_capacity = rates.size();
  numbers.state_difference = difference.c_str();
  const auto control = state.size() > 7 ? py::cast<std::string>(state[7]) : std::string();
  numbers.congestion_control = control.c_str();
  auto result = std::make_shared<Result>(numbers);
  result->output = state[4];
  return result;
}

py::object to_python(const lockstep_peer_id& id) {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> type;
  const py::object& peer_id =
      type.call_once_and_store_result([] { return from_package("lockstep.types", "PeerId"); }).get_stored();
  return peer_id(py::bytes(reinterpret_cast<const char*>(id.bytes), sizeof id.bytes));
}

PeerIds to_python(const std::vector<lockstep_peer_id>& ids) {
  PeerIds objects(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) objects[i] = to_python(ids[i]);
  return objects;
}

lockstep_peer_id to_peer_id(const py::handle& id) {
  lockstep_peer_id result{};
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_Check(id.ptr()) == 0)
    raise_invalid(shown(id) + " is no peer id; allowed: a lockstep.PeerId, as in run.members() and run.id");
  PyBytes_AsStringAndSize(id.ptr(), &bytes, &size);
  if (size != sizeof result.bytes) raise_invalid("a peer id has " + std::to_string(size) + " bytes; allowed: 16");
  std::memcpy(result.bytes, bytes, sizeof result.bytes);
  return result;
}

namespace {

using R = const Result&;
using ResultClass = py::class_<Result, std::shared_ptr<Result>>;

// Contributors, and what the call cost.
void define_contributors(ResultClass& c) {
  c.def_property_readonly(
       "world_size", [](R r) { return r.raw.world_size; },
       "Contributors of a committed call; else the members of this peer's group now.")
      .def_property_readonly(
          "rank", [](R r) { return r.raw.rank; }, "This peer's place among the contributors.")
      .def_property_readonly(
          "contributors", [](R r) { return to_python(r.contributors); },
          "The lockstep.PeerId of each contributor, in rank order; equal on every peer.")
      .def_property_readonly(
          "hash", [](R r) { return r.raw.hash; }, "64-bit hash of the result; equal on every peer.")
      .def_property_readonly(
          "retries", [](R r) { return r.raw.retries; },
          "Attempts that were given up because a member was lost or left.")
      .def_property_readonly(
          "seconds", [](R r) { return r.raw.seconds; }, "Seconds from the call to its end, on this peer.")
      .def_property_readonly(
          "bytes_sent", [](R r) { return r.raw.bytes_sent; }, "Bytes of payload sent, all attempts.")
      .def_property_readonly(
          "bytes_received", [](R r) { return r.raw.bytes_received; }, "Bytes of payload received, all attempts.")
      .def_property_readonly(
          "algorithm", [](R r) { return to_text(lockstep_algorithm_name(r.raw.algorithm)); },
          "All-reduce, reduce-scatter, all-gather, reduce, broadcast: \"ring\", \"direct\" or \"grid\", equal on\n"
          "every peer.\n"
          "Other calls: \"auto\".")
      .def_property_readonly(
          "rates", [](R r) { return numbers_of(r.rates); },
          "All-reduces in which each peer owned a part by what its line carries: bytes a second of each contributor's\n"
          "line towards the others, as measured in earlier calls, in rank order; 0: not known. Equal on every peer.\n"
          "Empty: all peers owned equal parts.")
      .def_property_readonly(
          "congestion_control", [](R r) { return to_text(r.congestion_control); },
          "Congestion control of TCP where this peer sent arrays while the call ran, as the system reports it.\n"
          "\"bbr\"; \"bbr, cubic\" if streams differ; empty: it sent none, or not over TCP.")
      .def_property_readonly(
          "streams", [](R r) { return r.raw.streams; },
          "Number of streams of TCP, to all other peers together, that this peer sent arrays on while the call ran.\n"
          "Where a line loses packets, it grows from call to call until more streams carry no more bytes.");
}

// The run at the joint call.
void define_sizes(ResultClass& c) {
  c.def_property_readonly(
       "members", [](R r) { return r.raw.members; },
       "Members of all groups. Committed calls: in the view in which the attempt began, equal on every contributor;\n"
       "other calls: in the newest view, so equal on every member after admit().")
      .def_property_readonly(
          "groups", [](R r) { return r.raw.groups; }, "Groups with at least one member, in the same view as `members`.")
      .def_property_readonly(
          "largest_group", [](R r) { return r.raw.largest_group; },
          "Members of the group that has the most, in the same view as `members`.")
      .def_property_readonly(
          "newcomers", [](R r) { return to_python(r.newcomers); },
          "admit() and wait_for_world(): the lockstep.PeerId of each peer that joined during the call.");
}

// The round, and the attempt that committed.
void define_round(ResultClass& c) {
  c.def_property_readonly(
       "view", [](R r) { return r.raw.view; }, "Number of the newest view when the call ended.")
      .def_property_readonly(
          "cohort", [](R r) { return r.raw.cohort; }, "Number of the view whose members the call was made among.")
      .def_property_readonly(
          "tag", [](R r) { return r.raw.tag; }, "The call's name.")
      .def_property_readonly(
          "use", [](R r) { return r.raw.use; }, "Which call with this tag in this cohort it was, from 0.")
      .def_property_readonly(
          "attempt", [](R r) { return r.raw.attempt; }, "The attempt that committed.")
      .def_property_readonly(
          "weight", [](R r) { return r.raw.weight; }, "Sum of all weights of a committed weighted average.");
}

// The data that the call has left.
void define_data(ResultClass& c) {
  c.def_property_readonly(
       "chunk",
       [](R r) {
         return py::slice(static_cast<py::ssize_t>(r.raw.chunk_begin),
                          static_cast<py::ssize_t>(r.raw.chunk_begin + r.raw.chunk_count), 1);
       },
       "Reduce-scatter: the elements of the flat input that `output` holds, as a slice.")
      .def_property_readonly(
          "blocks", [](R r) { return numbers_of(r.blocks); },
          "All-gather, gather, scatter, all-to-all: elements that each rank sent to this peer, in rank order.")
      .def_readwrite(
          "output", &Result::output,
          "The array that holds the result, cut to what was received. None where a call has no result of its own.")
      .def_property_readonly(
          "partner",
          [](R r) -> py::object {
            const auto& bytes = r.raw.partner.bytes;
            const bool is_nobody = std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
            return is_nobody ? py::object(py::none()) : to_python(r.raw.partner);
          },
          "Send: the receiver. Recv: the sender. None for other calls.")
      .def_property_readonly(
          "count", [](R r) { return r.raw.count; }, "Send and recv: the elements that were transferred.")
      .def_property_readonly(
          "revision", [](R r) { return r.raw.revision; }, "Sync and prefetch: the revision of the state in memory.")
      .def_property_readonly(
          "lineage", [](R r) { return r.raw.lineage; },
          "Sync and prefetch: the lineage of the state in memory; equal for states that grew out of one; 0: none yet.")
      .def_property_readonly(
          "state_root",
          [](R r) { return (py::int_(r.raw.state_root[0]) << py::int_(64)) | py::int_(r.raw.state_root[1]); },
          "Sync: XXH3-128 of the state; equal for equal states.")
      .def_property_readonly(
          "state_undefined", [](R r) { return r.raw.state_undefined != 0; },
          "Sync: the call failed while the state was being written: the arrays hold no state until a sync succeeds.\n"
          "Prefetch: the arrays hold a part of a state.")
      .def_property_readonly(
          "state_difference", [](R r) { return to_text(r.state_difference); },
          "Which peers' watched states differ and where first (Communicator.watch); empty: none.\n"
          "Sync: whose state had strayed and was overwritten, of which revision, and the first array that differed.");
}

}  // namespace

void define_result(py::module_& module) {
  ResultClass c(module, "Result", R"(How a call ended. What does not apply to a call is 0 or empty.

Example:
    >>> result = run.all_reduce(gradient, op="avg")
    >>> result.world_size, hex(result.hash), result.retries, result.seconds
)");
  define_contributors(c);
  define_sizes(c);
  define_round(c);
  define_data(c);
  c.def_property_readonly(
       "status",
       [](R r) { return StatusObject(from_package("lockstep.types", "Status")(static_cast<int>(r.raw.status))); },
       "The lockstep.Status that the call ended with.")
      .def(py::pickle([](R r) { return r.state(); }, [](const py::tuple& state) { return Result::of_state(state); }))
      .def("__repr__", [](R r) {
        return "<lockstep.Result " + std::string(lockstep_status_string(r.raw.status)) +
               " world_size=" + std::to_string(r.raw.world_size) + " view=" + std::to_string(r.raw.view) +
               " retries=" + std::to_string(r.raw.retries) + " seconds=" + std::to_string(r.raw.seconds) + ">";
      });
}

}  // namespace lockstep::python
