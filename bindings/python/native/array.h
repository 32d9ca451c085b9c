// The memory of an array, borrowed without a copy: anything with the buffer protocol (numpy, array.array, bytearray,
// memoryview) or DLPack (torch, jax, cupy). Created and destroyed with the GIL held.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/python/native/dlpack.h"
#include "lockstep.h"

namespace lockstep::python {

namespace py = pybind11;

class Array {
 public:
  enum class Access : std::uint8_t { kRead, kWrite };

  // Raises ArrayError if the object is not an array, or not one that a call can use. The text names `argument`, shape,
  // strides, dtype and the remedy. An array on a CUDA device raises DeviceArray, a kind of ArrayError.
  Array(const py::handle& object, const std::string& argument, Access access);
  // The memory of a tensor of torch that needs no preparation: on the CPU, contiguous, of a type that a call can use.
  // Nothing for all other objects, and for an older torch.
  static std::optional<Array> of_plain_tensor(const py::handle& object);
  Array(Array&& other) noexcept = default;
  Array& operator=(Array&& other) noexcept = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() = default;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] lockstep_data_type type() const { return type_; }

 private:
  Array() = default;

  struct ReleaseBuffer {
    void operator()(Py_buffer* view) const {
      PyBuffer_Release(view);
      delete view;
    }
  };

  struct ReleaseTensor {
    void operator()(dlpack::ManagedTensorVersioned* tensor) const {
      if (tensor->deleter != nullptr) tensor->deleter(tensor);
    }
  };

  // `shown`: the object that errors describe.
  void take_buffer(const py::handle& object, const py::handle& shown, const std::string& argument, Access access);
  void take_dlpack(const py::handle& given, const std::string& argument, Access access);
  // `object`: the one that errors describe.
  void take_tensor(const dlpack::Tensor& tensor, std::uint64_t flags, const py::handle& object,
                   const std::string& argument, Access access);

  void* data_ = nullptr;
  std::uint64_t count_ = 0;
  lockstep_data_type type_ = LOCKSTEP_U8;
  std::unique_ptr<Py_buffer, ReleaseBuffer> buffer_;
  py::object capsule_;
  std::unique_ptr<dlpack::ManagedTensorVersioned, ReleaseTensor> tensor_;
};

// One array, or a list or tuple of arrays of one dtype. The fourth element is named "array[3]".
std::vector<Array> arrays_of(const py::object& object, const std::string& argument, Array::Access access);

// Whether the argument is a list of arrays.
inline bool is_list(const py::handle& object) { return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()); }

// numpy's name of the type, such as "float32".
const char* name_of(lockstep_data_type type);

}  // namespace lockstep::python
