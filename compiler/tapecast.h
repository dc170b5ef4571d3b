/* tapecast.h: what all compiled models have in common. C11 and C++11; needs no library but libc.
 *
 * A model comes with a header of its own, <model>.h, which includes this one. It has for each entry point
 *   <model>_<entry>_call(...)      typed pointers, sizes by name
 *   <model>_<entry>_tensors(...)   DLPack tensors, every property checked
 * Both return 0, or a code whose meaning tapecast_message() tells.
 */
#ifndef TAPECAST_H_
#define TAPECAST_H_

#include <stddef.h>
#include <stdint.h>

#define TAPECAST_ABI_VERSION 1

/* DLPack: the real header where it is, else the part of it that tensors on the host need. */
#if !defined(DLPACK_DLPACK_H_) && defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 } DLDeviceType;
typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U, kDLComplex = 5U, kDLBool = 6U } DLDataTypeCode;
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major without gaps */
  uint64_t byte_offset;
} DLTensor;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Return codes. A positive code k says that the k-th size is outside its declared range. A negative one names a
 * problem in its low byte and, above it, the argument: inputs count from 1, outputs go on from there. */
enum {
  TAPECAST_OK = 0,
  TAPECAST_NO_LEVEL = -1,  /* this CPU has none of the levels the model was compiled for */
  TAPECAST_NULL = -2,      /* a pointer is NULL */
  TAPECAST_COUNT = -3,     /* another number of inputs or outputs */
  TAPECAST_DEVICE = -4,    /* a tensor is not on the host */
  TAPECAST_DTYPE = -5,     /* another element type */
  TAPECAST_RANK = -6,      /* another number of axes */
  TAPECAST_SHAPE = -7,     /* an axis has a length that does not fit the signature or the other tensors */
  TAPECAST_STRIDES = -8,   /* a tensor is not row-major without gaps */
  TAPECAST_ALIGNMENT = -9, /* data is not aligned to its element type, or a workspace not to 64 bytes */
  TAPECAST_WORKSPACE = -10, /* no workspace, and the model needs one for these sizes */
  TAPECAST_INDEX = -11      /* an index among the data is out of range; the outputs are not to be used */
};

/* The problem of a return code: one of the constants, or a positive position of a size. */
static inline int32_t tapecast_problem(int32_t code) { return code >= 0 ? code : -((-code) & 255); }

/* The argument a return code is about, from 1, inputs before outputs; 0: none in particular. */
static inline int32_t tapecast_argument(int32_t code) { return code >= 0 ? 0 : (-code) >> 8; }

/* What a return code means and what to do, in a sentence that lives for ever. */
static inline const char *tapecast_message(int32_t code) {
  if (code > 0) return "a size is outside the range the model was compiled for: split the input or compile a wider range";
  switch (tapecast_problem(code)) {
    case TAPECAST_OK: return "the call succeeded";
    case TAPECAST_NO_LEVEL: return "this CPU has none of the levels in the file: compile the model with --target portable";
    case TAPECAST_NULL: return "an argument is NULL: give every input and output, and their data";
    case TAPECAST_COUNT: return "the number of inputs or outputs is wrong: see the signature in the model's header";
    case TAPECAST_DEVICE: return "a tensor is not on the host: copy it to host memory first";
    case TAPECAST_DTYPE: return "a tensor has the wrong element type: convert it to the one in the model's header";
    case TAPECAST_RANK: return "a tensor has the wrong number of axes: reshape it as the model's header says";
    case TAPECAST_SHAPE: return "a tensor's shape fits neither the signature nor the other tensors: see the model's header";
    case TAPECAST_STRIDES: return "a tensor is not row-major without gaps: make a contiguous copy of it";
    case TAPECAST_ALIGNMENT: return "data is not aligned: align tensors to their element type, workspaces to 64 bytes";
    case TAPECAST_WORKSPACE: return "there is no workspace: give as many bytes as the model's workspace function says";
    case TAPECAST_INDEX: return "an index in the data is out of range: check ids and positions before the call";
    default: return "the code is unknown: the model is newer than this header";
  }
}

/* Integer division and remainder that round down, as in the shapes of a signature. */
static inline int64_t tapecast_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) & ((a < 0) != (b < 0))); }
static inline int64_t tapecast_mod(int64_t a, int64_t b) { return a - tapecast_div(a, b) * b; }
/* The n at which the line through at_0 at 0 and at_1 at 1 reaches length, rounded down; 0 if it is flat. */
static inline int64_t tapecast_solve(int64_t length, int64_t at_0, int64_t at_1) {
  return at_1 == at_0 ? 0 : tapecast_div(length - at_0, at_1 - at_0);
}
static inline int64_t tapecast_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t tapecast_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* The word of an argument block that holds a pointer. */
static inline int64_t tapecast_word(const void *pointer) { return (int64_t)(intptr_t)pointer; }

/* What the checks of an entry point need to know; <model>.h has one of each. */
typedef struct {
  const char *name;
  uint8_t code, bits;
  int32_t ndim;
} tapecast_tensor;
typedef struct {
  const char *name;
  int32_t place, input, axis; /* its place among the sizes, and the axis it is read from */
  int64_t low, high;          /* the declared range; high < 0: no bound */
  int64_t (*solve)(int64_t length, const int64_t *sizes); /* NULL: the length is the size */
} tapecast_size;
typedef struct {
  const char *name;
  int32_t n_inputs, n_outputs, n_sizes;
  const tapecast_tensor *tensors; /* inputs, then outputs */
  const tapecast_size *sizes;
  void (*shapes)(const int64_t *sizes, int64_t *lengths); /* lengths of all axes of all tensors */
  int64_t (*workspace)(const int64_t *sizes);
  int32_t (*call)(const int64_t *args);
} tapecast_entry;

static inline int32_t tapecast_fault(int32_t problem, int32_t argument) { return problem - (argument + 1) * 256; }

/* Everything about a tensor but its lengths. */
static inline int32_t tapecast_check_tensor(const tapecast_tensor *want, const DLTensor *t, int32_t argument) {
  if (!t) return tapecast_fault(TAPECAST_NULL, argument);
  if (t->device.device_type != kDLCPU && t->device.device_type != kDLCUDAHost)
    return tapecast_fault(TAPECAST_DEVICE, argument);
  if (t->dtype.code != want->code || t->dtype.bits != want->bits || t->dtype.lanes != 1)
    return tapecast_fault(TAPECAST_DTYPE, argument);
  if (t->ndim != want->ndim) return tapecast_fault(TAPECAST_RANK, argument);
  if (t->ndim && !t->shape) return tapecast_fault(TAPECAST_NULL, argument);
  return TAPECAST_OK;
}

/* The data of a tensor; its lengths are right already. */
static inline int32_t tapecast_check_data(const DLTensor *t, int32_t argument) {
  int64_t count = 1, size = t->dtype.bits / 8;
  int32_t axis;
  for (axis = t->ndim - 1; axis >= 0; axis--) count *= t->shape[axis];
  if (count == 0) return TAPECAST_OK;
  if (!t->data) return tapecast_fault(TAPECAST_NULL, argument);
  if (size > 8) size = 8; /* a complex number is aligned as its parts are */
  if (((uint64_t)(uintptr_t)t->data + t->byte_offset) % (uint64_t)size) return tapecast_fault(TAPECAST_ALIGNMENT, argument);
  for (axis = t->ndim - 1, count = 1; t->strides && axis >= 0; count *= t->shape[axis--])
    if (t->shape[axis] != 1 && t->strides[axis] != count) return tapecast_fault(TAPECAST_STRIDES, argument);
  return TAPECAST_OK;
}

/* Call an entry point on DLPack tensors after every check. `args` has a word for each tensor and size and two more,
 * `lengths` one for each axis; the functions of <model>.h bring both. NULL as workspace is right where none is needed. */
static inline int32_t tapecast_call(const tapecast_entry *entry, DLTensor *const *inputs, int32_t n_inputs,
                                    DLTensor *const *outputs, int32_t n_outputs, void *workspace, int32_t threads,
                                    int64_t *args, int64_t *lengths) {
  int32_t count = entry->n_inputs + entry->n_outputs, i, axis, code;
  int64_t *sizes = args + count;
  if (n_inputs != entry->n_inputs || n_outputs != entry->n_outputs) return TAPECAST_COUNT;
  if ((n_inputs && !inputs) || (n_outputs && !outputs)) return TAPECAST_NULL;
  for (i = 0; i < count; i++) {
    code = tapecast_check_tensor(&entry->tensors[i], i < n_inputs ? inputs[i] : outputs[i - n_inputs], i);
    if (code) return code;
  }
  for (i = 0; i < entry->n_sizes; i++) {
    const tapecast_size *size = &entry->sizes[i];
    int64_t n = inputs[size->input]->shape[size->axis];
    if (size->solve) n = size->solve(n, sizes);
    if (n < size->low || (size->high >= 0 && n > size->high)) return size->place + 1;
    sizes[size->place] = n;
  }
  entry->shapes(sizes, lengths);
  for (i = 0; i < count; i++) {
    const DLTensor *t = i < n_inputs ? inputs[i] : outputs[i - n_inputs];
    for (axis = 0; axis < t->ndim; axis++)
      if (t->shape[axis] != *lengths++) return tapecast_fault(TAPECAST_SHAPE, i);
    code = tapecast_check_data(t, i);
    if (code) return code;
    args[i] = tapecast_word((const char *)t->data + t->byte_offset);
  }
  if (!workspace && entry->workspace(sizes) > 0) return TAPECAST_WORKSPACE;
  if ((uintptr_t)workspace % 64) return TAPECAST_ALIGNMENT;
  args[count + entry->n_sizes] = tapecast_word(workspace);
  args[count + entry->n_sizes + 1] = threads > 0 ? threads : 1;
  return entry->call(args);
}

#ifdef __cplusplus
}
#endif
#endif
