#include "shim.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

static struct page alone;
struct page *page = &alone;
static pthread_key_t leaving;
static __thread struct slot *mine;

static void release(void *slot) { atomic_store(&((struct slot *)slot)->tid, 0); }

static void forked(void) { /* timers and threads are not inherited */
    mine = 0;
    pthread_setspecific(leaving, 0);
    forget_timers();
}

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("CONFORMANCE_CLOCK");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *shared = mmap(0, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED) page = shared;
        close(file);
    }
    pthread_key_create(&leaving, release);
    pthread_atfork(0, 0, forked);
}

/* Take the first slot of nobody, or of somebody who was killed and could not leave it. */
static struct slot *claim(int32_t tid, int of_the_dead) {
    for (int i = 0; i < SLOTS; i++) {
        int32_t whose = atomic_load(&page->slots[i].tid);
        if (whose && !(of_the_dead && syscall(SYS_tkill, whose, 0) && errno == ESRCH)) continue;
        if (atomic_compare_exchange_strong(&page->slots[i].tid, &whose, tid)) return &page->slots[i];
    }
    return 0;
}

static struct slot *slot(void) {
    if (mine) return mine;
    int before = errno;
    int32_t tid = (int32_t)syscall(SYS_gettid);
    for (int i = 0; i < SLOTS && !mine; i++)
        if (atomic_load(&page->slots[i].tid) == tid) mine = &page->slots[i]; /* of the program that this one replaced */
    if (!mine) mine = claim(tid, 0);
    if (!mine) mine = claim(tid, 1);
    if (mine) pthread_setspecific(leaving, mine);
    errno = before;
    return mine;
}

__attribute__((destructor)) static void end(void) { if (mine) release(mine); }

void waits_until(int64_t deadline) {
    struct slot *own = slot();
    if (!own) return;
    atomic_store(&own->deadline, deadline);
    atomic_store(&own->waits, 1);
}

void was_woken(void) { if (mine) atomic_fetch_add(&mine->woken, 1); }

void waits_no_more(void) {
    was_woken();
    if (mine) atomic_store(&mine->waits, 0);
}

void has_seen(uint64_t epoch) { if (mine) atomic_store(&mine->seen, epoch); }
