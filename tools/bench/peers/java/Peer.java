import com.google.common.util.concurrent.RateLimiter;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What a Java program pays for a Guava RateLimiter per key, with one line of figures per case.
 *
 * <p>The keys are ready-made and visited in an order that was shuffled before any clock ran; those
 * in the map are other strings of the same characters, as those of a new request would be. (Their
 * hash codes are computed in the warm-up and kept by the strings: a new request would pay for it.)
 */
public final class Peer {
    private static final String NAME = "java-guava";

    /** The limit of every peer: 10 per second. Guava keeps a second of them: burst 10. */
    private static final double PER_SECOND = 10;

    private static final int KEY_COUNT = 1_000_000;
    private static final int SLICE_COUNT = 100_000; // calls in a slice
    private static final int WARM_UP_LAPS = 1;
    private static final long CASE_NS = 1_000_000_000L; // as many slices as fit, after the warm-up

    private final ConcurrentHashMap<String, RateLimiter> limiters = new ConcurrentHashMap<>();

    /** A plain get first: computeIfAbsent may lock the bin even if the key is there. */
    boolean allow(String key) {
        RateLimiter limiter = limiters.get(key);
        if (limiter == null) {
            limiter = limiters.computeIfAbsent(key, unused -> RateLimiter.create(PER_SECOND));
        }
        return limiter.tryAcquire();
    }

    int visit(String[] keys, int from, int to) {
        int admitted = 0;
        for (int i = from; i < to; i++) {
            if (allow(keys[i])) {
                admitted++;
            }
        }
        return admitted;
    }

    int visitOne(String key) {
        int admitted = 0;
        for (int i = 0; i < SLICE_COUNT; i++) {
            if (allow(key)) {
                admitted++;
            }
        }
        return admitted;
    }

    /** Shares the keys between two threads. The reported time is that per call of either. */
    int visitInTwo(String[] keys, int from, int to) {
        int half = from + (to - from) / 2;
        int[] others = new int[1];
        Thread other = new Thread(() -> others[0] = visit(keys, half, to));
        other.start();
        int admitted = visit(keys, from, half);
        try {
            other.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        return admitted + others[0];
    }

    // Keys, the same in every peer.

    private static long mix(long state) {
        long mixed = state;
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return mixed ^ (mixed >>> 31);
    }

    private static final long STEP = 0x9E3779B97F4A7C15L;

    private static String newKey(long index) {
        String digits = Long.toHexString(mix(index + STEP));
        return "0".repeat(16 - digits.length()) + digits;
    }

    private static String[] shuffledKeys() {
        int[] order = new int[KEY_COUNT];
        long random = 1;
        for (int i = 0; i < KEY_COUNT; i++) {
            order[i] = i;
        }
        for (int i = KEY_COUNT - 1; i > 0; i--) {
            random += STEP;
            int other = (int) Long.remainderUnsigned(mix(random), i + 1);
            int kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        String[] keys = new String[KEY_COUNT];
        for (int i = 0; i < KEY_COUNT; i++) {
            keys[i] = newKey(order[i]);
        }
        return keys;
    }

    // Measuring.

    /** Makes SLICE_COUNT calls from the at-th key on, and returns how many were admitted. */
    private interface Slice {
        int play(int at);
    }

    /** Prints the median of slices, each of which continues where the last one stopped. */
    private static void measure(String name, int keyCount, String more, Slice slice) {
        int lap = KEY_COUNT / SLICE_COUNT;
        for (int i = 0; i < WARM_UP_LAPS * lap; i++) {
            slice.play(i % lap * SLICE_COUNT);
        }
        List<Double> times = new ArrayList<>();
        long admitted = 0;
        long end = System.nanoTime() + CASE_NS;
        while (times.isEmpty() || System.nanoTime() - end < 0) {
            int at = times.size() % lap * SLICE_COUNT;
            long start = System.nanoTime();
            admitted += slice.play(at);
            times.add((double) (System.nanoTime() - start) / SLICE_COUNT);
        }
        Collections.sort(times);
        long ops = (long) times.size() * SLICE_COUNT;
        System.out.printf(
                "peer=%s case=%s ns_per_op=%.1f ops=%d admitted=%.6f keys=%d%s runtime=java%s%n",
                NAME, name, times.get(times.size() / 2), ops, (double) admitted / ops, keyCount,
                more, System.getProperty("java.version"));
    }

    private static long heapBytes() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    /** Meets every key once, and returns the bytes that each takes, its own included. */
    private double fill() {
        long before = heapBytes();
        for (int i = 0; i < KEY_COUNT; i++) {
            allow(newKey(i));
        }
        return (double) (heapBytes() - before) / KEY_COUNT;
    }

    public static void main(String[] arguments) {
        Peer one = new Peer();
        String hotKey = newKey(0);
        measure("hot", 1, "", at -> one.visitOne(hotKey));

        String[] keys = shuffledKeys();
        Peer all = new Peer();
        String memory = String.format(" mem_bytes_per_key=%.0f", all.fill());
        measure("million", KEY_COUNT, memory, at -> all.visit(keys, at, at + SLICE_COUNT));
        if (Runtime.getRuntime().availableProcessors() >= 2) {
            measure("million_two_threads", KEY_COUNT, "",
                    at -> all.visitInTwo(keys, at, at + SLICE_COUNT));
        }
    }
}
