// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that loading and using the library does not change the state of the process: environment, threads, signals,
// locale, working directory, open files, limits and floating-point modes. The library must print nothing.
// Usage: environment <library>
#define _GNU_SOURCE
#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/embed/process.h"
#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

enum { kMaxVariables = 1000, kSignals = 65, kLimits = RLIMIT_NLIMITS };

typedef struct snapshot {
  char** environment;
  char* variable[kMaxVariables];
  char text[kMaxVariables][512];
  int variables;
  sigset_t mask;
  struct sigaction action[kSignals];
  char folder[4096];
  char locale[256];
  int files;
  mode_t file_mask;
  int rounding;
  int traps;
  unsigned modes;  // MXCSR without its sticky flags
  struct rlimit limit[kLimits];
  cpu_set_t processors;
} snapshot;

static int count_files(void) {
  int count = 0;
  DIR* const files = opendir("/proc/self/fd");
  REQUIRE(files != NULL, "/proc/self/fd cannot be read");
  while (readdir(files) != NULL) ++count;
  closedir(files);
  return count;
}

static void take(snapshot* s) {
  memset(s, 0, sizeof *s);
  s->environment = environ;
  for (; environ[s->variables] != NULL; ++s->variables) {
    REQUIRE(s->variables < kMaxVariables, "too many variables");
    s->variable[s->variables] = environ[s->variables];
    strncpy(s->text[s->variables], environ[s->variables], sizeof s->text[0] - 1);
  }
  sigprocmask(SIG_SETMASK, NULL, &s->mask);
  for (int i = 1; i < kSignals; ++i) sigaction(i, NULL, &s->action[i]);
  REQUIRE(getcwd(s->folder, sizeof s->folder) != NULL, "no working directory");
  strncpy(s->locale, setlocale(LC_ALL, NULL), sizeof s->locale - 1);
  s->files = count_files();
  s->file_mask = umask(0);
  umask(s->file_mask);
  s->rounding = fegetround();
  s->traps = fegetexcept();
#if defined(__x86_64__)
  s->modes = _mm_getcsr() & ~0x3fu;
#endif
  for (int i = 0; i < kLimits; ++i) getrlimit((__rlimit_resource_t)i, &s->limit[i]);
  sched_getaffinity(0, sizeof s->processors, &s->processors);
}

static void require_same(const snapshot* before, const snapshot* now, const char* when) {
  REQUIRE(before->environment == now->environment, "%s: environ points to another array than before", when);
  REQUIRE(before->variables == now->variables, "%s: %d variables, before %d", when, now->variables, before->variables);
  for (int i = 0; i < now->variables; ++i) {
    REQUIRE(before->variable[i] == now->variable[i] && strcmp(before->text[i], now->text[i]) == 0,
            "%s: variable %s, before %s", when, now->text[i], before->text[i]);
  }
  REQUIRE(memcmp(&before->mask, &now->mask, sizeof now->mask) == 0, "%s: the signal mask has changed", when);
  for (int i = 1; i < kSignals; ++i) {
    REQUIRE(before->action[i].sa_handler == now->action[i].sa_handler &&
                before->action[i].sa_flags == now->action[i].sa_flags,
            "%s: the handler of signal %d has changed", when, i);
  }
  REQUIRE(strcmp(before->folder, now->folder) == 0, "%s: working directory %s", when, now->folder);
  REQUIRE(strcmp(before->locale, now->locale) == 0, "%s: locale %s", when, now->locale);
  REQUIRE(before->files == now->files, "%s: %d open files, before %d", when, now->files, before->files);
  REQUIRE(before->file_mask == now->file_mask, "%s: umask %o", when, (unsigned)now->file_mask);
  REQUIRE(before->rounding == now->rounding, "%s: rounding mode %d, before %d", when, now->rounding, before->rounding);
  REQUIRE(before->traps == now->traps, "%s: floating-point traps %d, before %d", when, now->traps, before->traps);
  REQUIRE(before->modes == now->modes, "%s: MXCSR %x, before %x", when, now->modes, before->modes);
  REQUIRE(memcmp(before->limit, now->limit, sizeof now->limit) == 0, "%s: the resource limits have changed", when);
  REQUIRE(CPU_EQUAL(&before->processors, &now->processors), "%s: the processor affinity has changed", when);
}

// Checks that all threads except the main thread block the signals that a host program often handles.
static void require_workers_block_signals(void) {
  DIR* const tasks = opendir("/proc/self/task");
  for (const struct dirent* entry; (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid()) continue;
    char path[300];
    char line[200];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
    FILE* const status = fopen(path, "r");
    unsigned long long blocked = 0;
    while (fgets(line, sizeof line, status) != NULL) sscanf(line, "SigBlk: %llx", &blocked);
    fclose(status);
    const int wanted[] = {SIGHUP, SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGCHLD, SIGPROF};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
      REQUIRE((blocked >> (wanted[i] - 1) & 1) == 1, "thread %s does not block signal %d (SigBlk %llx)", entry->d_name,
              wanted[i], blocked);
    }
  }
  closedir(tasks);
}

static void on_signal(int number) { (void)number; }

static snapshot before;
static snapshot now;
static trainer t;

// Between begin_redirect() and end_redirect(), standard output and standard error go to the file `printed`. `redirect`
// has copies of the original descriptors.
static int redirect[2];
static FILE* printed;

static long end_redirect(char* text, size_t bytes);

// Prints the redirected output if the program ends during the redirection, that is, after a failure.
static void show_printed(void) {
  static char text[2000];
  if (printed == NULL) return;
  end_redirect(text, sizeof text);
  fputs(text, stderr);
}

static void begin_redirect(void) {
  fflush(NULL);
  printed = tmpfile();
  REQUIRE(printed != NULL, "no temporary file");
  redirect[0] = dup(1);
  redirect[1] = dup(2);
  dup2(fileno(printed), 1);
  dup2(fileno(printed), 2);
}

// Ends the redirection, stores the beginning of the output in `text`, and returns the number of bytes of the output.
static long end_redirect(char* text, size_t bytes) {
  fflush(stdout);
  fflush(stderr);
  dup2(redirect[0], 1);
  dup2(redirect[1], 2);
  fseek(printed, 0, SEEK_END);
  const long count = ftell(printed);
  rewind(printed);
  text[fread(text, 1, bytes - 1, printed)] = 0;
  close(redirect[0]);
  close(redirect[1]);
  fclose(printed);
  printed = NULL;
  return count;
}

static void use(const api* functions, const char* when) {
  const workload work = workload_default(3);
  const int threads_before = thread_count();
  take(&before);
  trainer_begin(&t, functions, &work, NULL);
  require_thread_count(threads_before + 2, "with an optimizer of 3 threads");
  take(&now);
  require_same(&before, &now, when);
  trainer_step(&t, 6);
  // Gives the new threads time to start. Every new thread blocks all signals during pthread_create, so an earlier check
  // of the blocked signals would prove nothing.
  const struct timespec pause = {0, 50 * 1000 * 1000};
  nanosleep(&pause, NULL);
  require_workers_block_signals();
  take(&now);
  require_same(&before, &now, when);
  trainer_end(&t);
  require_thread_count(threads_before, "after destroy");
  take(&now);
  require_same(&before, &now, when);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2, "%d arguments: expected the library", argc - 1);
  atexit(show_printed);
  // Settings that an intrusive library would change.
  setenv("OMP_NUM_THREADS", "7", 1);
  setenv("OPENBLAS_NUM_THREADS", "5", 1);
  signal(SIGUSR1, on_signal);
  signal(SIGFPE, on_signal);
  sigset_t some;
  sigemptyset(&some);
  sigaddset(&some, SIGUSR2);
  sigprocmask(SIG_BLOCK, &some, NULL);

  const int threads_before = thread_count();
  begin_redirect();
  take(&before);
  const api functions = api_open(argv[1]);
  take(&now);
  const int threads_after = thread_count();
  char text[2000];
  long count = end_redirect(text, sizeof text);
  REQUIRE(threads_after == threads_before, "%d threads after load, before %d", threads_after, threads_before);
  require_same(&before, &now, "load");
  REQUIRE(count == 0, "load printed %ld bytes: %s", count, text);

  begin_redirect();
  REQUIRE(functions.config_create(NULL) == SHAMPOO_E_INVALID, "a NULL was accepted");
  use(&functions, "use");
  count = end_redirect(text, sizeof text);
  REQUIRE(count == 0, "use printed %ld bytes: %s", count, text);

#if defined(__x86_64__)
  // The library must keep the floating-point modes of the host.
  _mm_setcsr(_mm_getcsr() | 0x8040u);  // flush to zero, denormals are zero
  fesetround(FE_UPWARD);
  use(&functions, "use, with modes of the host");
  REQUIRE(fegetround() == FE_UPWARD, "rounding mode %d", fegetround());
  fesetround(FE_TONEAREST);
#endif
  api_close(&functions);
  return 0;
}
