// The device on CUDA's runtime. cuBLASLt is looked for when it is first needed, so that a program
// with CUDA in it starts on a machine that has neither a driver nor the library.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <map>
#include <tuple>

#include "kernels/cuda/device.h"

namespace sluice::device {

namespace {

constexpr int capability_least = 80;
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

Error failure(const char* what, cudaError_t error) {
  const ErrorCode code =
      error == cudaErrorMemoryAllocation ? ErrorCode::exhausted : ErrorCode::unavailable;
  return Error{code, std::string(what) + ": " + cudaGetErrorString(error)};
}

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream); }

/// The first failure of a copy or a recording; reported by `synchronise`.
thread_local cudaError_t first_failure = cudaSuccess;
void remember(cudaError_t error) {
  if (first_failure == cudaSuccess) first_failure = error;
}

/// Of the device in use; 0 where it does not tell.
int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  const bool told = cudaGetDevice(&device) == cudaSuccess &&
                    cudaDeviceGetAttribute(&value, which, device) == cudaSuccess;
  return told ? value : 0;
}

/// cuBLASLt's functions that are used.
struct Library {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmulDescCreate) describe = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) prefer = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;

  template <typename F>
  static bool find(void* handle, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    return function != nullptr;
  }
  static Result<Library> open() {
    void* handle = nullptr;
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
      if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
      return Error{ErrorCode::unavailable,
                   "libcublasLt.so is not found; install CUDA's cuBLAS, or set LD_LIBRARY_PATH"};
    Library l;
    if (find(handle, "cublasLtCreate", l.create) &&
        find(handle, "cublasLtMatmulDescCreate", l.describe) &&
        find(handle, "cublasLtMatmulDescSetAttribute", l.set) &&
        find(handle, "cublasLtMatrixLayoutCreate", l.layout) &&
        find(handle, "cublasLtMatmulPreferenceCreate", l.prefer) &&
        find(handle, "cublasLtMatmulPreferenceSetAttribute", l.set_preference) &&
        find(handle, "cublasLtMatmulAlgoGetHeuristic", l.choose) &&
        find(handle, "cublasLtMatmul", l.multiply))
      return l;
    return Error{ErrorCode::unavailable, "libcublasLt.so lacks a function that is needed"};
  }
};

/// What was set up and chosen for one size. Small, and kept until the program ends.
struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, x = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

class CudaProducts final : public Products {
 public:
  CudaProducts(const Library& library, cublasLtHandle_t handle, Memory workspace)
      : library_(library), handle_(handle), workspace_(std::move(workspace)) {}

  Result<void> multiply(const float* x, const float* w, float* y, std::size_t rows, std::size_t out,
                        std::size_t in, Stream stream) override {
    return run(x, w, y, CUDA_R_32F, CUDA_R_32F, rows, out, in, stream);
  }
  Result<void> multiply(const Bf16* x, const Bf16* w, Bf16* y, std::size_t rows, std::size_t out,
                        std::size_t in, Stream stream) override {
    return run(x, w, y, CUDA_R_16BF, CUDA_R_16BF, rows, out, in, stream);
  }
  Result<void> multiply(const Bf16* x, const Bf16* w, float* y, std::size_t rows, std::size_t out,
                        std::size_t in, Stream stream) override {
    return run(x, w, y, CUDA_R_16BF, CUDA_R_32F, rows, out, in, stream);
  }

 private:
  using Key = std::tuple<cudaDataType, cudaDataType, std::size_t, std::size_t, std::size_t>;

  /// Row-major y = x W^T is column-major y^T = W x^T: W is read transposed.
  Result<Plan*> plan(const Key& key) {
    if (const auto it = plans_.find(key); it != plans_.end()) return &it->second;
    const auto [in_type, out_type, rows, out, in] = key;
    Plan made;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    bool fine = library_.describe(&made.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
                    CUBLAS_STATUS_SUCCESS &&
                set(made, CUBLASLT_MATMUL_DESC_TRANSA, transposed);
    fine = fine &&
           library_.layout(&made.weight, in_type, in, out, static_cast<std::int64_t>(in)) ==
               CUBLAS_STATUS_SUCCESS &&
           library_.layout(&made.x, in_type, in, rows, static_cast<std::int64_t>(in)) ==
               CUBLAS_STATUS_SUCCESS &&
           library_.layout(&made.y, out_type, out, rows, static_cast<std::int64_t>(out)) ==
               CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulPreference_t preference = nullptr;
    const std::size_t most = workspace_.bytes();
    fine = fine && library_.prefer(&preference) == CUBLAS_STATUS_SUCCESS &&
           library_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                   sizeof most) == CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    fine = fine &&
           library_.choose(handle_, made.operation, made.weight, made.x, made.y, made.y, preference,
                           1, &found, &count) == CUBLAS_STATUS_SUCCESS &&
           count > 0;
    if (!fine)
      return Error{ErrorCode::unavailable, "cuBLASLt has no product for [" + std::to_string(rows) +
                                               ", " + std::to_string(in) + "] x [" +
                                               std::to_string(in) + ", " + std::to_string(out) +
                                               "] on this device"};
    made.algorithm = found.algo;
    return &plans_.emplace(key, made).first->second;
  }

  template <typename T>
  bool set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return library_.set(plan.operation, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  }

  Result<void> run(const void* x, const void* w, void* y, cudaDataType in_type,
                   cudaDataType out_type, std::size_t rows, std::size_t out, std::size_t in,
                   Stream stream) {
    if (rows == 0 || out == 0) return {};
    const Result<Plan*> chosen = plan({in_type, out_type, rows, out, in});
    if (!chosen.ok()) return chosen.error();
    const Plan& p = **chosen;
    const float one = 1;
    const float zero = 0;
    const cublasStatus_t status =
        library_.multiply(handle_, p.operation, &one, w, p.weight, x, p.x, &zero, y, p.y, y, p.y,
                          &p.algorithm, workspace_.as<void>(), workspace_.bytes(), of(stream));
    if (status == CUBLAS_STATUS_SUCCESS) return {};
    return Error{ErrorCode::unavailable,
                 "cuBLASLt's product failed with status " + std::to_string(status)};
  }

  Library library_;
  cublasLtHandle_t handle_ = nullptr;
  Memory workspace_;
  std::map<Key, Plan> plans_;
};

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraphExec_t graph) : graph_(graph) {}
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }
  void launch(Stream stream) override { remember(cudaGraphLaunch(graph_, of(stream))); }

 private:
  cudaGraphExec_t graph_;
};

}  // namespace

Result<About> find_device() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    return failure("no CUDA device", error);
  if (count == 0) return Error{ErrorCode::unavailable, "the machine has no CUDA device"};
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess)
    return failure("the device tells nothing of itself", error);
  const int capability = properties.major * 10 + properties.minor;
  if (capability < capability_least)
    return Error{ErrorCode::unavailable, std::string(properties.name) +
                                             " is of compute capability " +
                                             std::to_string(capability) + "; " +
                                             std::to_string(capability_least) + " is the least"};
  About about{properties.name, properties.totalGlobalMem, 0, properties.multiProcessorCount};
  std::size_t total = 0;
  if (const cudaError_t error = cudaMemGetInfo(&about.free_bytes, &total); error != cudaSuccess)
    return failure("the device tells nothing of its memory", error);
  return about;
}

unsigned processors() {
  static const int count = attribute(cudaDevAttrMultiProcessorCount);
  return count > 0 ? static_cast<unsigned>(count) : 1;
}

Result<Memory> Memory::allocate(std::size_t bytes) {
  Memory made;
  if (const cudaError_t error = cudaMalloc(&made.data_, bytes); error != cudaSuccess) {
    made.data_ = nullptr;
    return failure((std::to_string(bytes) + " bytes on the device").c_str(), error);
  }
  made.bytes_ = bytes;
  return made;
}
Memory::~Memory() {
  if (data_ != nullptr) cudaFree(data_);
}

Result<HostMemory> HostMemory::allocate(std::size_t bytes) {
  void* data = nullptr;
  if (const cudaError_t error = cudaMallocHost(&data, bytes); error != cudaSuccess)
    return failure((std::to_string(bytes) + " pinned bytes of the host").c_str(), error);
  HostMemory made;
  made.data_.reset(static_cast<std::byte*>(data));
  made.bytes_ = bytes;
  return made;
}
void HostMemory::Free::operator()(std::byte* data) const { cudaFreeHost(data); }

Result<Pinned> Pinned::make(std::span<std::byte> memory) {
  const cudaError_t error =
      cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable);
  if (error == cudaSuccess) return Pinned(memory.data());
  (void)cudaGetLastError();  // told here, and to nobody else
  return failure((std::to_string(memory.size()) + " bytes of the host cannot be pinned").c_str(),
                 error);
}
Pinned::~Pinned() {
  if (data_ != nullptr) cudaHostUnregister(data_);
}

Result<Stream> make_stream() {
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      error != cudaSuccess)
    return failure("a stream", error);
  return Stream{stream};
}
void free_stream(Stream stream) { cudaStreamDestroy(of(stream)); }

void copy_in(void* device, const void* host, std::size_t bytes, Stream stream) {
  // From pageable memory: the host's bytes are read before this returns.
  remember(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, of(stream)));
}
void copy_pinned(void* device, const HostMemory& host, std::size_t bytes, Stream stream) {
  remember(cudaMemcpyAsync(device, host.data(), bytes, cudaMemcpyHostToDevice, of(stream)));
}
void copy_out(void* host, const void* device, std::size_t bytes, Stream stream) {
  remember(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, of(stream)));
}

Result<void> synchronise(Stream stream) {
  remember(cudaGetLastError());
  remember(cudaStreamSynchronize(of(stream)));
  const cudaError_t error = std::exchange(first_failure, cudaSuccess);
  if (error == cudaSuccess) return {};
  return failure("the device's work failed", error);
}

namespace {

/// Of copies: what a forward left to be reported stays its own.
template <typename Call>
cudaError_t apart(const Call& call) {
  remember(cudaGetLastError());
  const cudaError_t error = call();
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

Result<void> copied(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return failure("pages cannot be copied", error);
}

}  // namespace

Result<void> follow(Stream stream, Stream earlier) {
  return copied(apart([&] {
    cudaEvent_t now = nullptr;
    cudaError_t error = cudaEventCreateWithFlags(&now, cudaEventDisableTiming);
    if (error != cudaSuccess) return error;
    error = cudaEventRecord(now, of(earlier));
    if (error == cudaSuccess) error = cudaStreamWaitEvent(of(stream), now, 0);
    cudaEventDestroy(now);
    return error;
  }));
}
Result<void> copy_in_later(void* device, const void* host, std::size_t bytes, Stream stream) {
  return copied(apart(
      [&] { return cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, of(stream)); }));
}
Result<void> copy_out_later(void* host, const void* device, std::size_t bytes, Stream stream) {
  return copied(apart(
      [&] { return cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, of(stream)); }));
}
Result<bool> is_done(Stream stream) {
  const cudaError_t error = apart([&] { return cudaStreamQuery(of(stream)); });
  if (error == cudaErrorNotReady) return false;
  if (Result<void> done = copied(error); !done.ok()) return done.error();
  return true;
}
Result<void> wait(Stream stream) {
  return copied(apart([&] { return cudaStreamSynchronize(of(stream)); }));
}

Result<std::unique_ptr<Products>> make_products() {
  Result<Library> library = Library::open();
  if (!library.ok()) return library.error();
  cublasLtHandle_t handle = nullptr;
  if (library->create(&handle) != CUBLAS_STATUS_SUCCESS)
    return Error{ErrorCode::unavailable, "cuBLASLt does not start on this device"};
  Result<Memory> workspace = Memory::allocate(workspace_bytes);
  if (!workspace.ok()) return workspace.error();
  return std::unique_ptr<Products>(
      std::make_unique<CudaProducts>(*library, handle, std::move(workspace).value()));
}

void begin_recording(Stream stream) {
  remember(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal));
}

Result<std::unique_ptr<Graph>> end_recording(Stream stream) {
  cudaGraph_t graph = nullptr;
  remember(cudaStreamEndCapture(of(stream), &graph));
  // What was refused on the way is missing from the graph.
  remember(cudaGetLastError());
  if (const cudaError_t error = std::exchange(first_failure, cudaSuccess); error != cudaSuccess) {
    if (graph != nullptr) cudaGraphDestroy(graph);
    return failure("the work cannot be recorded", error);
  }
  cudaGraphExec_t ready = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  if (error != cudaSuccess) return failure("the recorded work cannot be made ready", error);
  return std::unique_ptr<Graph>(std::make_unique<CudaGraph>(ready));
}

}  // namespace sluice::device
