// mesos-master, mesos-agent and mesos-containerizer in one program, chosen by the name it is run as.
//
// It opens the Mesos 1.11.0 native library (libmesos.so beside it, from the PyPI package
// mesos.scheduler) and calls what the programs of those names call. No Mesos headers are needed:
// every object is built by its exported constructor in memory that is large enough for it, and the
// few offsets used below hold for exactly this build of the library.
//
//   mesos-master         flags from MESOS_* in the environment; address from LIBPROCESS_IP/_PORT
//   mesos-agent FLAGS    flags from the command line and MESOS_*; MESOS_WORK_DIR is required
//   mesos-containerizer launch ...   run by the agent, which finds it by MESOS_LAUNCHER_DIR (this folder unless set)
#include <dlfcn.h>
#include <libgen.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

using std::string;

// Data symbols of the Python runtime that the library wants at load time; no Python code ever runs.
extern "C" { void *PyExc_Exception[64], *PyExc_TypeError[64], *_Py_NoneStruct[64]; }

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

static void *library;

[[noreturn]] static void fail(const string &why) {
  fprintf(stderr, "%s\n", why.c_str());
  _exit(1);
}

template <class Function>
static Function symbol(const char *name) {
  void *address = dlsym(library, name);
  if (!address) fail(string("libmesos.so has no symbol ") + name);
  return reinterpret_cast<Function>(address);
}

static char *memory(size_t size = 1 << 16) { return static_cast<char *>(calloc(1, size)); }

// stout's Option<T>: {int state (0 is some, 1 is none); T value}.
static char *none() {
  char *option = memory();
  *reinterpret_cast<int *>(option) = 1;
  return option;
}

static char *some(const string &value) {
  char *option = memory();
  new (option + 8) string(value);
  return option;
}

// stout's Try<T*>: an Option<T*> followed by an Option<Error>.
static char *unwrap(char *result, const char *what) {
  if (*reinterpret_cast<int *>(result) != 0) fail(string("cannot create the ") + what);
  return *reinterpret_cast<char **>(result + 8);
}

static string env(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value ? value : otherwise;
}

static void construct(const char *constructor, char *object) {
  symbol<void (*)(void *)>(constructor)(object);
}

// FlagsBase::load(Option<string> prefix, int, char const* const*, bool unknowns, bool duplicates)
static void loadFlags(char *flagsBase, const char *prefix, int argc, char **argv) {
  char *result = memory();  // Try<Warnings>: the error message is at +40
  symbol<void (*)(void *, void *, void *, int, char **, bool, bool)>(
      "_ZN5flags9FlagsBase4loadERK6OptionI" STRING "EiPKPKcbb")(
      result, flagsBase, some(prefix), argc, argv, false, false);
  if (*reinterpret_cast<int *>(result) != 0) fail(*reinterpret_cast<char **>(result + 40));
}

static void initializeProcess(const string &delegate) {
  symbol<bool (*)(void *, void *, void *)>(
      "_ZN7process10initializeERK6OptionI" STRING "ES9_S9_")(some(delegate), none(), none());
}

static int containerizer(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "launch") != 0) fail("mesos-containerizer: only 'launch' is supported");
  // MesosContainerizerLaunch: {vptr, string name, FlagsBase unused at 0x28, Flags at 0xE0}
  char *launch = memory();
  *reinterpret_cast<char **>(launch) = symbol<char *>("_ZTVN5mesos8internal5slave24MesosContainerizerLaunchE") + 16;
  new (launch + 8) string("launch");
  construct("_ZN5flags9FlagsBaseC1Ev", launch + 0x28);
  construct("_ZN5mesos8internal5slave24MesosContainerizerLaunch5FlagsC1Ev", launch + 0xE0);
  char *flags = symbol<char *(*)(void *)>("_ZN5mesos8internal5slave24MesosContainerizerLaunch8getFlagsEv")(launch);
  loadFlags(flags, "MESOS_CONTAINERIZER_", argc - 1, argv + 1);
  return symbol<int (*)(void *)>("_ZN5mesos8internal5slave24MesosContainerizerLaunch7executeEv")(launch);
}

static int master() {
  string work = env("MESOS_WORK_DIR", "");
  if (work.empty()) fail("mesos-master: set MESOS_WORK_DIR");
  unsetenv("MESOS_WORK_DIR");
  initializeProcess("master");
  // local::Flags: {vptr, string work_dir at 8, int num_slaves at 40}
  char *flags = memory();
  construct("_ZN5mesos8internal5local5FlagsC1Ev", flags);
  *reinterpret_cast<string *>(flags + 8) = work;
  *reinterpret_cast<int *>(flags + 40) = 0;
  symbol<void (*)(void *, void *, void *)>(
      "_ZN5mesos8internal5local6launchERKNS1_5FlagsEPNS_9allocator9AllocatorE")(memory(), flags, nullptr);
  for (;;) pause();
}

static int agent(int argc, char **argv) {
  string work = env("MESOS_WORK_DIR", "");
  if (work.empty()) fail("mesos-agent: set MESOS_WORK_DIR");
  char *flags = memory();
  construct("_ZN5mesos8internal5slave5FlagsC1Ev", flags);
  // slave::Flags has two virtual bases: logging::Flags (vtable -24) and FlagsBase (vtable -32).
  loadFlags(flags + (*reinterpret_cast<long **>(flags))[-4], "MESOS_", argc, argv);
  initializeProcess("slave(1)");

  char *fetcher = memory(), *collector = memory(), *updates = memory(), *files = memory(), *result;
  symbol<void (*)(void *, void *)>("_ZN5mesos8internal5slave7FetcherC1ERKNS1_5FlagsE")(fetcher, flags);
  symbol<void (*)(void *, const string &)>("_ZN5mesos8internal5slave16GarbageCollectorC1ERK" STRING)(collector, work);
  symbol<void (*)(void *, void *)>("_ZN5mesos8internal5slave23TaskStatusUpdateManagerC1ERKNS1_5FlagsE")(updates, flags);
  symbol<void (*)(void *, void *, void *)>(
      "_ZN5mesos8internal5FilesC1ERK6OptionI" STRING "ERKS2_IPNS_10AuthorizerEE")(files, none(), none());

  auto create = [&](const char *name, const char *what) {
    char *r = memory();
    symbol<void (*)(void *, void *)>(name)(r, none());
    return unwrap(r, what);
  };
  char *resolver = create("_ZN5mesos14SecretResolver6createERK6OptionI" STRING "E", "secret resolver");
  char *estimator = create("_ZN5mesos5slave17ResourceEstimator6createERK6OptionI" STRING "E", "resource estimator");
  char *qos = create("_ZN5mesos5slave13QoSController6createERK6OptionI" STRING "E", "QoS controller");

  symbol<void (*)(void *, void *, bool, void *, void *, void *, void *, void *, void *)>(
      "_ZN5mesos8internal5slave13Containerizer6createERKNS1_5FlagsEbPNS1_7FetcherEPNS1_16GarbageCollectorE"
      "PNS_14SecretResolverEPNS1_16VolumeGidManagerEPNS0_20PendingFutureTrackerEPNS1_9CSIServerE")(
      result = memory(), flags, false, fetcher, collector, resolver, nullptr, nullptr, nullptr);
  char *container = unwrap(result, "containerizer");

  // The master: host:port, or zk://host:port/path
  symbol<void (*)(void *, void *, void *, void *)>(
      "_ZN5mesos6master8detector14MasterDetector6createERK6OptionI" STRING "ESC_RKS3_I8DurationE")(
      result = memory(), some(env("MESOS_MASTER", "127.0.0.1:5050")), none(), none());
  char *detector = unwrap(result, "master detector");

  char *slave = memory(1 << 18), *csi = memory();
  string id = "slave(1)";
  symbol<void (*)(void *, const string &, void *, void *, void *, void *, void *, void *, void *, void *, void *,
                  void *, void *, void *, void *, void *)>(SLAVE_CONSTRUCTOR)(
      slave, id, flags, detector, container, files, collector, updates, estimator, qos, nullptr, nullptr, nullptr,
      csi, none(), none());
  char *process = slave + (*reinterpret_cast<long **>(slave))[-3];  // its virtual base ProcessBase
  symbol<void (*)(void *, void *, bool)>("_ZN7process5spawnEPNS_11ProcessBaseEb")(memory(), process, false);
  for (;;) pause();
}

int main(int argc, char **argv) {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) fail("cannot read /proc/self/exe");
  string folder = dirname(self);
  setenv("MESOS_LAUNCHER_DIR", folder.c_str(), 0);
  library = dlopen((folder + "/libmesos.so").c_str(), RTLD_LAZY | RTLD_GLOBAL);
  if (!library) fail(dlerror());
  string name = basename(argv[0]);
  if (name == "mesos-containerizer") return containerizer(argc, argv);
  *symbol<bool *>("_ZN3fLB17FLAGS_logtostderrE") = true;
  if (name == "mesos-master") return master();
  if (name == "mesos-agent") return agent(argc, argv);
  fail("run this as mesos-master, mesos-agent or mesos-containerizer");
}
