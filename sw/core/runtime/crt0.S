# Start-up code of the slice core: the first instruction after reset is at _start (core.ld).
# Traps are unexpected here: the program ends with 128 + mcause. Programs set mtvec for their own.
    .section .text.start, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la      gp, __global_pointer$
    .option pop
    la      t0, _trap
    csrw    mtvec, t0
    la      sp, __stack_top
    la      t0, __bss_start
    la      t1, __bss_end
1:  bgeu    t0, t1, 2f
    sd      zero, 0(t0)
    addi    t0, t0, 8
    j       1b
2:
    # Registers hold anything after a reset; to save one on the stack must not make runs differ.
    .irp    reg, ra, tp, t0, t1, t2, s0, s1, a0, a1, a2, a3, a4, a5, a6, a7
    li      \reg, 0
    .endr
    .irp    reg, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, t3, t4, t5, t6
    li      \reg, 0
    .endr
    call    main
    .globl _exit
_exit:
    slli    a0, a0, 56      # as of a process: the lowest byte counts
    srli    a0, a0, 56
1:  li      t0, 0x10000008
    sd      a0, 0(t0)
2:  j       2b

    .balign 4
_trap:
    csrr    a0, mcause
    addi    a0, a0, 128
    j       1b
