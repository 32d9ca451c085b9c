// The end of a call as a Python object.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep.h"

namespace lockstep::python {

namespace py = pybind11;

// Types that only make the stub more precise.
struct PeerIds : py::tuple {
  using py::tuple::tuple;
};
struct Numbers : py::tuple {
  using py::tuple::tuple;
};
struct StatusObject : py::object {
  explicit StatusObject(py::object status) : py::object(std::move(status)) {}
};

// A result for a C function to fill in, with arrays that are large enough. Each thread has one.
lockstep_result& blank_result();

// A copy of a lockstep_result.
struct Result {
  explicit Result(const lockstep_result& from);

  // For pickle, also of another version of the library: its fields that this version lacks are dropped.
  [[nodiscard]] py::tuple state() const;
  static std::shared_ptr<Result> of_state(const py::tuple& state);

  lockstep_result raw;
  std::vector<lockstep_peer_id> contributors;
  std::vector<std::uint64_t> blocks;
  std::vector<lockstep_peer_id> newcomers;
  std::vector<std::uint64_t> rates;
  std::string state_difference;
  std::string congestion_control;
  py::object output = py::none();  // the array with the result, if the call created or cut it
};

// A lockstep.PeerId.
py::object to_python(const lockstep_peer_id& id);
PeerIds to_python(const std::vector<lockstep_peer_id>& ids);
lockstep_peer_id to_peer_id(const py::handle& id);

void define_result(py::module_& module);

}  // namespace lockstep::python

// NOLINTBEGIN(readability-identifier-naming): names that pybind11 looks for
namespace pybind11::detail {

template <>
struct handle_type_name<lockstep::python::PeerIds> {
  static constexpr auto name = const_name("tuple[lockstep.types.PeerId, ...]");
};
template <>
struct handle_type_name<lockstep::python::Numbers> {
  static constexpr auto name = const_name("tuple[int, ...]");
};
template <>
struct handle_type_name<lockstep::python::StatusObject> {
  static constexpr auto name = const_name("lockstep.types.Status");
};

}  // namespace pybind11::detail
// NOLINTEND(readability-identifier-naming)
