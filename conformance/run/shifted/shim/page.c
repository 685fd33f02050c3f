/* Maps the shared page, and gives each thread a slot of it. Without a page the clock is not shifted. */
#include "shim.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

static struct page private_page; /* used without a shared one: its offset stays 0 */
struct page *page = &private_page;
static pthread_key_t slot_key;
static __thread struct slot *mine;

static void free_slot(void *slot) { atomic_store(&((struct slot *)slot)->tid, 0); }

/* In the child of a fork, which inherits neither timers nor threads: forget the parent's. */
static void after_fork(void) {
    mine = 0;
    pthread_setspecific(slot_key, 0);
    reset_timers();
}

__attribute__((constructor)) static void map_page(void) {
    const char *name = getenv("CONFORMANCE_CLOCK");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *shared = mmap(0, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED) page = shared;
        close(file);
    }
    pthread_key_create(&slot_key, free_slot);
    pthread_atfork(0, 0, after_fork);
}

/* Take a free slot for a thread, or with take_stale one of a thread that was killed; return 0 when there is none. */
static struct slot *claim_slot(int32_t tid, int take_stale) {
    for (int i = 0; i < SLOTS; i++) {
        int32_t owner = atomic_load(&page->slots[i].tid);
        if (owner && !(take_stale && syscall(SYS_tkill, owner, 0) && errno == ESRCH)) continue;
        if (atomic_compare_exchange_strong(&page->slots[i].tid, &owner, tid)) return &page->slots[i];
    }
    return 0;
}

/* Return the calling thread's slot, claimed when it first waits; 0 when all slots are taken. */
static struct slot *own_slot(void) {
    if (mine) return mine;
    int before = errno;
    int32_t tid = (int32_t)syscall(SYS_gettid);
    for (int i = 0; i < SLOTS && !mine; i++)
        if (atomic_load(&page->slots[i].tid) == tid) mine = &page->slots[i]; /* of the program that called exec */
    if (!mine) mine = claim_slot(tid, 0);
    if (!mine) mine = claim_slot(tid, 1);
    if (mine) pthread_setspecific(slot_key, mine);
    errno = before;
    return mine;
}

__attribute__((destructor)) static void free_own_slot(void) { if (mine) free_slot(mine); }

/* Say that the thread waits from now on, until `deadline` at most. */
void begin_wait(int64_t deadline) {
    struct slot *own = own_slot();
    if (!own) return;
    atomic_store(&own->deadline, deadline);
    atomic_store(&own->waits, 1);
}

/* Say that a wait has ended, so that what was seen before is no longer known. */
void count_wakeup(void) { if (mine) atomic_fetch_add(&mine->woken, 1); }

void end_wait(void) {
    count_wakeup();
    if (mine) atomic_store(&mine->waits, 0);
}

/* Say that the thread has had nothing to do in an epoch. */
void set_seen(uint64_t epoch) { if (mine) atomic_store(&mine->seen, epoch); }
