// Arrays of Python that kernels read and write: float32, and parts of a model in its own type.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "bindings/python/native/array.h"
#include "bindings/python/native/error.h"
#include "core/kernels/training/outer_step.h"

namespace lockstep::python::kernels {

[[noreturn]] inline void refuse_dtype(const std::string& name, const Array& array, const char* allowed) {
  raise_invalid(name + " is of " + name_of(array.type()) + "; allowed: " + allowed);
}

// An array of float32.
struct Floats {
  Array array;

  Floats(const py::handle& object, const char* name, Array::Access access) : array(object, name, access) {
    if (array.type() != LOCKSTEP_F32) refuse_dtype(name, array, "float32");
  }
  [[nodiscard]] std::span<float> span() const { return {static_cast<float*>(array.data()), array.count()}; }
};

inline void same_size(const Array& array, const char* name, const Array& first, const char* first_name) {
  if (array.count() == first.count()) return;
  raise_invalid(std::string(name) + " has " + std::to_string(array.count()) + " elements, " + first_name + " has " +
                std::to_string(first.count()) + "; allowed: as many");
}

// Part of a model's parameters; None: none.
struct Model {
  std::optional<Array> array;

  Model(const py::handle& object, const char* name, Array::Access access, const Array& first, const char* first_name) {
    if (object.is_none()) return;
    array.emplace(object, name, access);
    if (array->type() != LOCKSTEP_F32 && array->type() != LOCKSTEP_BF16 && array->type() != LOCKSTEP_F16) {
      refuse_dtype(name, *array, "float32, bfloat16, float16");
    }
    same_size(*array, name, first, first_name);
  }
  [[nodiscard]] training::Held<std::byte> held() const {
    if (!array) return {};
    const auto type = array->type() == LOCKSTEP_BF16  ? DataType::kBF16
                      : array->type() == LOCKSTEP_F16 ? DataType::kF16
                                                      : DataType::kF32;
    return {type, {static_cast<std::byte*>(array->data()), array->count() * size_of(type)}};
  }
  [[nodiscard]] training::Held<const std::byte> held_const() const { return {held().type, held().bytes}; }
};

constexpr auto kRead = Array::Access::kRead;
constexpr auto kWrite = Array::Access::kWrite;

}  // namespace lockstep::python::kernels
