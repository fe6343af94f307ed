/* cuFile without a device behind it: memory of the simulated driver is the host's, so files are read into it. It answers
 * as cuFile does where something was not registered, and can be told to do a part of what it is asked. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct answer { int own, cuda; };
struct file { int kind; union { int fd; void* handle; } at; const void* operations; };
static int opened, files, buffers, failing;
static size_t most = (size_t)1 << 40;

int simulated_files(void) { return files; }
int simulated_buffers(void) { return buffers; }
void simulated_most(size_t n) { most = n; }
void simulated_failing(int code) { failing = code; }

struct answer cuFileDriverOpen(void) { return opened++, (struct answer){failing, 0}; }
struct answer cuFileHandleRegister(void** handle, struct file* f) {
  if (!opened || f->kind != 1 || !(fcntl(f->at.fd, F_GETFL) & O_DIRECT)) return (struct answer){5020, 0};
  int* kept = malloc(sizeof(int));
  *kept = f->at.fd;
  fcntl(*kept, F_SETFL, fcntl(*kept, F_GETFL) & ~O_DIRECT);      /* as where cuFile copies through the host */
  return files++, *handle = kept, (struct answer){0, 0};
}
void cuFileHandleDeregister(void* handle) {
  int fd = *(int*)handle;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT);
  files--, free(handle);
}
struct answer cuFileBufRegister(const void* at, size_t size, int flags) {
  return buffers++, (struct answer){at && size && !flags ? 0 : 5011, 1};
}
struct answer cuFileBufDeregister(const void* at) {
  return (struct answer){at && buffers-- > 0 ? 0 : 5024, 0};
}
ssize_t cuFileRead(void* handle, void* to, size_t size, off_t from, off_t behind) {
  if (failing) return -failing;
  return pread(*(int*)handle, (char*)to + behind, size < most ? size : most, from);
}
ssize_t cuFileWrite(void* handle, const void* from, size_t size, off_t to, off_t behind) {
  if (failing) return -failing;
  return pwrite(*(int*)handle, (const char*)from + behind, size < most ? size : most, to);
}
