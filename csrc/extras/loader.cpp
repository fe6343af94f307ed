// An ELF64 object loader for kernels: one object in, executable memory and its symbols out.
//
// All allocated sections go into one mapping, followed by stubs and slots for functions outside (memcpy, libm). It is
// written while writable, then made executable and never writable again. Every offset, index and size read from the
// file is checked against the file; every relocation is checked against its section and against its reach.
#include "loader.h"
#include "boundary.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rl {
namespace {

#if defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
constexpr size_t kStubSize = 16;
#elif defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
constexpr size_t kStubSize = 16;
#else
constexpr uint16_t kMachine = EM_NONE;
constexpr size_t kStubSize = 16;
#endif

constexpr uint64_t kLargestImage = uint64_t(1) << 28;

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error("load_object: " + why); }

uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// The file, read only through checked copies: nothing in it need be aligned.
struct File {
  const uint8_t* data;
  uint64_t size;

  const uint8_t* range(uint64_t offset, uint64_t length) const {
    if (offset > size || length > size - offset) refuse("truncated file");
    return data + offset;
  }
  template <typename T>
  T read(uint64_t offset) const {
    T value;
    std::memcpy(&value, range(offset, sizeof(T)), sizeof(T));
    return value;
  }
  std::string text(const Elf64_Shdr& table, uint64_t offset) const {
    if (offset >= table.sh_size) refuse("a name lies outside its table");
    const uint8_t* first = range(table.sh_offset, table.sh_size) + offset;
    const void* end = std::memchr(first, 0, table.sh_size - offset);
    if (!end) refuse("a name has no end");
    for (const uint8_t* at = first; at != end; at++)
      if (*at <= ' ' || *at > '~') refuse("a name is not plain text");
    return std::string(reinterpret_cast<const char*>(first), static_cast<const uint8_t*>(end) - first);
  }
};

// Memory that is writable until `seal`, executable after it; released if loading fails in between.
struct Mapping {
  uint8_t* base = nullptr;
  size_t size = 0;

  explicit Mapping(size_t wanted) : size(wanted) {
    void* got = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) refuse("no memory for code");
    base = static_cast<uint8_t*>(got);
  }
  Mapping(const Mapping&) = delete;
  ~Mapping() {
    if (base) munmap(base, size);
  }
  void seal() {
    if (mprotect(base, size, PROT_READ | PROT_EXEC)) refuse("the system forbids executable memory");
    __builtin___clear_cache(reinterpret_cast<char*>(base), reinterpret_cast<char*>(base + size));
  }
  void keep() { base = nullptr; }
};

class Image {
 public:
  Image(File file, PyObject* find) : file_(file), find_(find) {}

  PyObject* load() {
    read_headers();
    read_symbols();
    const uint64_t stubs_at = lay_out();
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    Mapping memory(round_up(stubs_at + symbols_.size() * (kStubSize + 8), page));
    base_ = memory.base;
    stubs_ = base_ + stubs_at;
    slots_ = stubs_ + symbols_.size() * kStubSize;
    for (size_t k = 0; k < sections_.size(); k++)
      if (placed_[k] != kNowhere)
        std::memcpy(base_ + placed_[k], file_.range(sections_[k].sh_offset, sections_[k].sh_size),
                    sections_[k].sh_size);
    resolve_symbols();
    for (const Elf64_Shdr& section : sections_)
      if (section.sh_type == SHT_RELA) relocate(section);
    memory.seal();
    PyObject* names = exported();
    if (names) memory.keep();
    return names;
  }

 private:
  static constexpr uint64_t kNowhere = ~uint64_t(0);

  void read_headers() {
    const auto header = file_.read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL)
      refuse("not a 64-bit little-endian relocatable object");
    if (header.e_machine != kMachine) refuse("made for another machine (ELF " + std::to_string(header.e_machine) + ")");
    if (header.e_shentsize != sizeof(Elf64_Shdr) || !header.e_shnum) refuse("no section table");
    for (uint64_t k = 0; k < header.e_shnum; k++) {
      if (header.e_shoff > file_.size) refuse("truncated file");
      const auto section = file_.read<Elf64_Shdr>(header.e_shoff + k * sizeof(Elf64_Shdr));
      if (section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS) file_.range(section.sh_offset, section.sh_size);
      sections_.push_back(section);
    }
    placed_.assign(sections_.size(), kNowhere);
  }

  const Elf64_Shdr& section(uint64_t index) const {
    if (index >= sections_.size()) refuse("a section number is out of range");
    return sections_[index];
  }

  void read_symbols() {
    for (const Elf64_Shdr& table : sections_) {
      if (table.sh_type != SHT_SYMTAB) continue;
      if (!symbols_.empty() || table.sh_entsize != sizeof(Elf64_Sym) || section(table.sh_link).sh_type != SHT_STRTAB)
        refuse("malformed symbol table");
      names_ = table.sh_link;
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym))
        symbols_.push_back(file_.read<Elf64_Sym>(table.sh_offset + at));
    }
    if (symbols_.empty()) refuse("no symbols");
    addresses_.assign(symbols_.size(), nullptr);
    external_.assign(symbols_.size(), false);
  }

  // Gives every section that must be in memory its place; returns the end.
  uint64_t lay_out() {
    uint64_t end = 0;
    for (size_t k = 0; k < sections_.size(); k++) {
      const Elf64_Shdr& s = sections_[k];
      if (!(s.sh_flags & SHF_ALLOC) || !s.sh_size || s.sh_type == SHT_NOTE) continue;
      if (s.sh_flags & SHF_WRITE) refuse("kernels have no writable data, but a section asks for it");
      if (s.sh_type == SHT_NOBITS || s.sh_size > kLargestImage) refuse("unexpected section");
      const uint64_t align = s.sh_addralign ? s.sh_addralign : 1;
      if (align > 4096 || (align & (align - 1))) refuse("odd alignment");
      placed_[k] = round_up(end, align);
      end = placed_[k] + s.sh_size;
      if (end > kLargestImage) refuse("object too large");
    }
    return round_up(end, 64);
  }

  void resolve_symbols() {
    for (size_t k = 1; k < symbols_.size(); k++) {
      const Elf64_Sym& symbol = symbols_[k];
      if (symbol.st_shndx == SHN_UNDEF) {
        if (!symbol.st_name) continue;
        const std::string name = file_.text(section(names_), symbol.st_name);
        void* found = outside(name);
        if (!found) refuse("the object calls " + name + ", which this process does not have");
        addresses_[k] = static_cast<uint8_t*>(found);
        external_[k] = true;
        write_stub(k);
      } else if (symbol.st_shndx < SHN_LORESERVE) {
        const Elf64_Shdr& home = section(symbol.st_shndx);
        if (placed_[symbol.st_shndx] == kNowhere) continue;
        if (symbol.st_value > home.sh_size) refuse("a symbol lies outside its section");
        addresses_[k] = base_ + placed_[symbol.st_shndx] + symbol.st_value;
      }
      const uint64_t address = reinterpret_cast<uint64_t>(addresses_[k]);
      std::memcpy(slot(k), &address, 8);
    }
  }

  // A function that the object calls and does not have: the caller's, or one of the process.
  void* outside(const std::string& name) const {
    if (find_ != Py_None) {
      PyObject* answer = PyObject_CallFunction(find_, "s", name.c_str());
      if (!answer) refuse("a name was not found");  // the error that is set tells why
      void* address = answer == Py_None ? nullptr : PyLong_AsVoidPtr(answer);
      Py_DECREF(answer);
      if (PyErr_Occurred()) refuse("a name has no address");
      if (address) return address;
    }
    return dlsym(RTLD_DEFAULT, name.c_str());
  }

  uint8_t* stub(size_t k) const { return stubs_ + k * kStubSize; }
  uint8_t* slot(size_t k) const { return slots_ + k * 8; }

  // A jump through the symbol's slot: functions outside may be farther away than a branch reaches.
  void write_stub(size_t k) {
    const int64_t distance = slot(k) - stub(k);
#if defined(__aarch64__)
    // ldr x16, [pc + distance]; br x16
    const uint32_t code[2] = {0x58000010u | (static_cast<uint32_t>(distance / 4) & 0x7FFFF) << 5, 0xD61F0200u};
    if (distance >= (1 << 20)) refuse("object too large");
    std::memcpy(stub(k), code, sizeof(code));
#elif defined(__x86_64__)
    // jmp [rip + distance]
    const uint8_t code[2] = {0xFF, 0x25};
    const int32_t reach = static_cast<int32_t>(distance - 6);
    std::memcpy(stub(k), code, 2);
    std::memcpy(stub(k) + 2, &reach, 4);
#else
    (void)distance;
#endif
  }

  void relocate(const Elf64_Shdr& table) {
    if (table.sh_entsize != sizeof(Elf64_Rela)) refuse("malformed relocations");
    const Elf64_Shdr& target = section(table.sh_info);
    const uint64_t home = placed_[table.sh_info];
    if (home == kNowhere) return;
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= table.sh_size; at += sizeof(Elf64_Rela)) {
      const auto entry = file_.read<Elf64_Rela>(table.sh_offset + at);
      const uint64_t index = ELF64_R_SYM(entry.r_info);
      if (index >= symbols_.size() || !addresses_[index]) refuse("a relocation names no symbol");
      const uint64_t width = patch_width(ELF64_R_TYPE(entry.r_info));
      if (entry.r_offset > target.sh_size || width > target.sh_size - entry.r_offset)
        refuse("a relocation lies outside its section");
      patch(base_ + home + entry.r_offset, ELF64_R_TYPE(entry.r_info), index, entry.r_addend);
    }
  }

  template <typename T>
  static void put(uint8_t* at, int64_t value) {
    const T narrow = static_cast<T>(value);
    if (static_cast<int64_t>(narrow) != value) refuse("a relocation does not reach");
    std::memcpy(at, &narrow, sizeof(T));
  }

#if defined(__aarch64__)
  static uint64_t patch_width(uint32_t type) { return type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64 ? 8 : 4; }

  static void set_bits(uint8_t* at, uint32_t mask, uint32_t bits) {
    uint32_t code;
    std::memcpy(&code, at, 4);
    code = (code & ~mask) | (bits & mask);
    std::memcpy(at, &code, 4);
  }

  // adrp: the distance between 4 KiB pages.
  static void set_page(uint8_t* at, int64_t target) {
    const int64_t pages = (target >> 12) - (reinterpret_cast<int64_t>(at) >> 12);
    if (pages < -(1 << 20) || pages >= (1 << 20)) refuse("a relocation does not reach");
    const uint32_t bits = static_cast<uint32_t>(pages);
    set_bits(at, 0x60FFFFE0u, (bits & 3) << 29 | (bits >> 2 & 0x7FFFF) << 5);
  }

  // Low 12 bits of an address, scaled by the size of the access.
  static void set_low(uint8_t* at, int64_t target, int shift) {
    const uint32_t low = static_cast<uint32_t>(target) & 0xFFF;
    if (low & ((1u << shift) - 1)) refuse("a relocation is not aligned");
    set_bits(at, 0x003FFC00u, (low >> shift) << 10);
  }

  void patch(uint8_t* at, uint32_t type, size_t index, int64_t addend) const {
    const int64_t here = reinterpret_cast<int64_t>(at);
    const int64_t value = reinterpret_cast<int64_t>(addresses_[index]) + addend;
    switch (type) {
      case R_AARCH64_ABS64: return put<int64_t>(at, value);
      case R_AARCH64_PREL64: return put<int64_t>(at, value - here);
      case R_AARCH64_PREL32: return put<int32_t>(at, value - here);
      case R_AARCH64_CALL26:
      case R_AARCH64_JUMP26: {
        const uint8_t* goal = external_[index] ? stub(index) : addresses_[index];
        const int64_t distance = reinterpret_cast<int64_t>(goal) + addend - here;
        if (distance < -(1 << 27) || distance >= (1 << 27) || distance & 3) refuse("a relocation does not reach");
        return set_bits(at, 0x03FFFFFFu, static_cast<uint32_t>(distance / 4));
      }
      case R_AARCH64_ADR_PREL_PG_HI21: return set_page(at, value);
      case R_AARCH64_ADR_GOT_PAGE: return set_page(at, reinterpret_cast<int64_t>(slot(index)));
      case R_AARCH64_LD64_GOT_LO12_NC: return set_low(at, reinterpret_cast<int64_t>(slot(index)), 3);
      case R_AARCH64_ADD_ABS_LO12_NC:
      case R_AARCH64_LDST8_ABS_LO12_NC: return set_low(at, value, 0);
      case R_AARCH64_LDST16_ABS_LO12_NC: return set_low(at, value, 1);
      case R_AARCH64_LDST32_ABS_LO12_NC: return set_low(at, value, 2);
      case R_AARCH64_LDST64_ABS_LO12_NC: return set_low(at, value, 3);
      case R_AARCH64_LDST128_ABS_LO12_NC: return set_low(at, value, 4);
      default: refuse("unknown relocation " + std::to_string(type));
    }
  }
#elif defined(__x86_64__)
  static uint64_t patch_width(uint32_t type) { return type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4; }

  void patch(uint8_t* at, uint32_t type, size_t index, int64_t addend) const {
    const int64_t here = reinterpret_cast<int64_t>(at);
    const int64_t value = reinterpret_cast<int64_t>(addresses_[index]) + addend;
    const int64_t call = reinterpret_cast<int64_t>(external_[index] ? stub(index) : addresses_[index]) + addend;
    switch (type) {
      case R_X86_64_64: return put<int64_t>(at, value);
      case R_X86_64_PC64: return put<int64_t>(at, value - here);
      case R_X86_64_PC32: return put<int32_t>(at, value - here);
      case R_X86_64_PLT32: return put<int32_t>(at, call - here);
      case R_X86_64_GOTPCREL:
      case 41:  // R_X86_64_GOTPCRELX, R_X86_64_REX_GOTPCRELX: older headers lack the names
      case 42: return put<int32_t>(at, reinterpret_cast<int64_t>(slot(index)) + addend - here);
      default: refuse("unknown relocation " + std::to_string(type));
    }
  }
#else
  static uint64_t patch_width(uint32_t) { return 8; }
  void patch(uint8_t*, uint32_t, size_t, int64_t) const { refuse("no loader for this machine"); }
#endif

  PyObject* exported() const {
    std::vector<std::pair<std::string, uint8_t*>> found;
    for (size_t k = 1; k < symbols_.size(); k++)
      if (ELF64_ST_BIND(symbols_[k].st_info) == STB_GLOBAL && !external_[k] && addresses_[k])
        found.emplace_back(file_.text(section(names_), symbols_[k].st_name), addresses_[k]);
    PyObject* names = PyDict_New();
    if (!names) return nullptr;
    for (const auto& [name, where] : found) {
      PyObject* address = PyLong_FromVoidPtr(where);
      const int failed = address ? PyDict_SetItemString(names, name.c_str(), address) : -1;
      Py_XDECREF(address);
      if (failed) {
        Py_DECREF(names);
        return nullptr;
      }
    }
    return names;
  }

  File file_;
  PyObject* find_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<uint64_t> placed_;  // offset in the image, or kNowhere
  std::vector<Elf64_Sym> symbols_;
  std::vector<uint8_t*> addresses_;
  std::vector<bool> external_;
  uint64_t names_ = 0;
  uint8_t* base_ = nullptr;
  uint8_t* stubs_ = nullptr;
  uint8_t* slots_ = nullptr;
};

PyMethodDef kMethods[] = {
    {"load_object", guarded<load_object>, METH_VARARGS,
     "load_object(bytes, find=None) -> {symbol: address}: map a relocatable ELF object."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* load_object(PyObject*, PyObject* args) {
  PyObject* bytes = nullptr;
  PyObject* find = Py_None;
  if (!PyArg_ParseTuple(args, "S|O:load_object", &bytes, &find)) return nullptr;
  const File file{reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes)),
                  static_cast<uint64_t>(PyBytes_GET_SIZE(bytes))};
  try {
    return Image(file, find).load();
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  }
}

int init_loader(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace rl
