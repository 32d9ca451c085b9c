// The part of the memory layout of DLPack 1.0 (https://dmlc.github.io/dlpack/latest/c_api.html) that is read here.
#pragma once

#include <cstdint>

namespace lockstep::python::dlpack {

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3 };
enum TypeCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

inline constexpr std::uint64_t kReadOnly = 1;
inline constexpr std::uint64_t kIsCopied = 2;

struct Tensor {
  void* data;
  DeviceType device_type;
  std::int32_t device_id;
  std::int32_t ndim;
  struct {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
  } type;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: contiguous
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};

struct ManagedTensorVersioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* manager;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

// The functions of a library of arrays, in a capsule of this name at its class (DLPack 1.3). They need no Python, and
// so cost a tenth of `__dlpack__`.
inline constexpr const char* kExchangeAttribute = "__dlpack_c_exchange_api__";
inline constexpr const char* kExchangeCapsule = "dlpack_exchange_api";

struct Exchange {
  std::uint32_t major;
  std::uint32_t minor;
  const Exchange* older;
  void* allocate;
  int (*export_managed)(void* object, ManagedTensorVersioned** out);  // not 0: with a Python exception
};

}  // namespace lockstep::python::dlpack
