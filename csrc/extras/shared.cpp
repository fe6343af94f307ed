// Storages with a memory file each: what tensors sent to another process, or shared with forked ones, live in.
// The files have no name, so nothing is left behind whichever way the processes end.
// Not Python: a storage changes its memory in place here, under tensors that look at it, and the last of them unmaps
// the file on whichever thread lets go of it, with or without the interpreter lock.
#include "shared.h"
#include "boundary.h"
#include "core.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace rl {

namespace {

struct Mapping {
  int fd;
  size_t length;
  Storage* kept;  // the memory the bytes were moved out of, while arrays may still look at it
};

void release_mapping(Storage* s) {
  auto* m = static_cast<Mapping*>(s->context);
  if (m->length) munmap(s->data, m->length);
  close(m->fd);
  if (m->kept) m->kept->drop();
  delete m;
}

// Every shared storage holds a descriptor: a model of a thousand parameters needs more than the customary soft limit.
bool raise_descriptor_limit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max) return false;
  rlim_t wanted = limit.rlim_cur * 4;
  limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

int new_file(size_t nbytes) {
  int fd;
  do fd = memfd_create("rushlight", MFD_CLOEXEC);
  while (fd < 0 && errno == EMFILE && raise_descriptor_limit());
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(nbytes))) {
    int why = errno;
    close(fd);
    errno = why;
    fd = -1;
  }
  return fd;
}

char* map_file(int fd, size_t nbytes) {
  if (!nbytes) return nullptr;
  void* p = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

Storage* os_error(int fd, const char* what, size_t nbytes) {
  int why = errno;
  if (fd >= 0) close(fd);
  PyErr_Format(PyExc_RuntimeError, "%s: cannot share %zu bytes: %s", what, nbytes, strerror(why));
  return nullptr;
}

// Takes over `fd`, whatever comes of it.
Storage* storage_of_file(int fd, size_t nbytes) {
  struct stat status;
  if (fstat(fd, &status)) return os_error(fd, "shared storage", nbytes);
  if (static_cast<size_t>(status.st_size) < nbytes) {
    close(fd);
    PyErr_Format(PyExc_RuntimeError, "shared storage: the file holds %lld bytes, %zu expected",
                 static_cast<long long>(status.st_size), nbytes);
    return nullptr;
  }
  char* data = map_file(fd, nbytes);
  if (nbytes && !data) return os_error(fd, "shared storage", nbytes);
  return storage_wrap(data, nbytes, Device{}, release_mapping, new Mapping{fd, nbytes, nullptr});
}

Storage* new_shared(size_t nbytes) {
  int fd = new_file(nbytes);
  return fd < 0 ? os_error(fd, "shared storage", nbytes) : storage_of_file(fd, nbytes);
}

PyObject* face(Storage* s) {
  if (!s) return nullptr;
  PyObject* o = storage_object(s);
  s->drop();
  return o;
}

Storage* of(PyObject* self) {
  return reinterpret_cast<StorageObject*>(self)->storage;
}

PyObject* py_is_shared(PyObject* self, PyObject*) {
  return PyBool_FromLong(of(self)->release == release_mapping || is_shared_block(of(self)));
}

PyObject* py_share(PyObject* self, PyObject*) {
  return storage_share(of(self)) ? Py_NewRef(self) : nullptr;
}

PyObject* py_share_fd(PyObject* self, PyObject*) {
  Storage* s = of(self);
  if (!storage_share(s)) return nullptr;
  return Py_BuildValue("in", static_cast<Mapping*>(s->context)->fd, static_cast<Py_ssize_t>(s->nbytes));
}

PyObject* py_new_shared(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"size", "device", nullptr};
  Py_ssize_t size;
  PyObject* device = nullptr;
  Device d;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "n|O:_new_shared", const_cast<char**>(names), &size, &device))
    return nullptr;
  if (device && device != Py_None && !parse_device(device, &d)) return nullptr;
  if (d.type != kCPU)
    return PyErr_Format(PyExc_RuntimeError, "_new_shared: only cpu memory can be shared between processes, not '%s'",
                        device_type_name(d.type)),
           nullptr;
  if (size < 0)
    return PyErr_Format(PyExc_RuntimeError, "_new_shared: size must not be negative, got %zd", size), nullptr;
  PyObject* block = shared_block_new(static_cast<size_t>(size));
  return block || PyErr_Occurred() ? block : face(new_shared(static_cast<size_t>(size)));
}

PyObject* py_new_using_fd(PyObject*, PyObject* arg) {
  Py_ssize_t size = PyNumber_AsSsize_t(arg, PyExc_OverflowError);
  if (size < 0)
    return PyErr_Occurred()
               ? nullptr
               : PyErr_Format(PyExc_RuntimeError, "_new_using_fd_cpu: size must not be negative, got %zd", size);
  return face(new_shared(static_cast<size_t>(size)));
}

PyObject* py_new_shared_fd(PyObject*, PyObject* args) {
  int fd;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "in", &fd, &size)) return nullptr;
  int mine = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (mine < 0 && errno == EMFILE && raise_descriptor_limit()) mine = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (mine < 0 || size < 0)
    return PyErr_Format(PyExc_RuntimeError, "_new_shared_fd_cpu: not a file of shared memory: %d", fd), nullptr;
  return face(storage_of_file(mine, static_cast<size_t>(size)));
}

PyMethodDef storage_methods[] = {
    {"share_memory_", guarded<py_share>, METH_NOARGS,
     "move the bytes to memory that other processes can be given; in place"},
    {"_share_fd_cpu_", guarded<py_share_fd>, METH_NOARGS, "(descriptor, size) of the memory file, after share_memory_"},
    {"is_shared", guarded<py_is_shared>, METH_NOARGS, "whether the bytes are in memory shared between processes"},
    {}};
PyMethodDef storage_makers[] = {
    {"_new_shared", guarded_method<py_new_shared>(), METH_VARARGS | METH_KEYWORDS,
     "_new_shared(size, *, device='cpu'): in shared memory"},
    {"_new_using_fd_cpu", guarded<py_new_using_fd>, METH_O, "_new_using_fd_cpu(size): in a new memory file"},
    {"_new_shared_fd_cpu", guarded<py_new_shared_fd>, METH_VARARGS,
     "_new_shared_fd_cpu(descriptor, size): over another process's memory file"},
    {}};

}  // namespace

bool storage_share(Storage* s) {
  if (s->device.type != kCPU) {
    PyErr_Format(PyExc_RuntimeError, "share_memory_: only cpu memory can be shared between processes, not '%s'",
                 device_type_name(s->device.type));
    return false;
  }
  if (s->is_hollow)
    return PyErr_SetString(PyExc_RuntimeError, "share_memory_: the storage of a wrapper subclass has no data to share"),
           false;
  if (s->release == release_mapping) return true;
  Storage* fresh = new_shared(s->nbytes);
  if (!fresh) return false;
  if (s->nbytes) memcpy(fresh->data, s->data, s->nbytes);
  auto* mapping = static_cast<Mapping*>(fresh->context);
  // The old bytes live on behind the new ones: an array made by Tensor.numpy may hold their address.
  if (s->release) {
    mapping->kept = storage_wrap(s->data, s->nbytes, s->device, s->release, s->context);
    mapping->kept->capacity = s->capacity;
    if (is_shared_block(s)) shared_block_moved(mapping->kept);
    if (s->resizable) {  // nobody was ever given the address
      mapping->kept->drop();
      mapping->kept = nullptr;
    }
  }
  s->data = fresh->data;
  s->release = release_mapping;
  s->context = mapping;
  s->capacity = 0;
  s->resizable = false;
  fresh->release = nullptr;
  fresh->drop();
  return true;
}

int init_shared(PyObject* module) {
  return add_attributes(StorageType, storage_methods) || add_class_methods(StorageType, storage_makers) ? -1 : 0;
}

}  // namespace rl
