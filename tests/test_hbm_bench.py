"""The rule table of the device and the timings of the controller, which are written down independently."""

import dataclasses

from hw.config import HbmConfig
from hw.hbm.timing import HbmSlots, HbmTimings
from tb.hbm.bench import table_of

CONFIG = HbmConfig(pseudo_channels=1)

#: Slots of the controller, and the timings of the table whose sum they are.
SUMS = {
    "rcd_read": ["tRCDRD"], "rcd_write": ["tRCDWR"], "rp": ["tRP"], "ras": ["tRAS"], "rc": ["tRC"],
    "ccd_l": ["tCCD_L"], "ccd_r": ["tCCD_R"], "rrd_s": ["tRRD_S"], "rrd_l": ["tRRD_L"], "faw": ["tFAW"],
    "read_to_precharge": ["tRTP"], "write_to_precharge": ["CWL", "BL", "tWR"],
    "write_to_read_s": ["CWL", "BL", "tWTR_S"], "write_to_read_l": ["CWL", "BL", "tWTR_L"],
    "read_to_write": ["tRTW"], "read_data": ["CL", "BL"], "rfc_all": ["tRFCab"], "rfc_bank": ["tRFCpb"],
    "rref": ["tRREFD"], "init": ["tINIT"], "mrd": ["tMRD"],
}


def test_controller_keeps_to_the_table_and_wastes_no_slot():
    table, slots = table_of(CONFIG), HbmSlots.of(CONFIG)
    for name, parts in SUMS.items():
        assert getattr(slots, name) == -(-sum(table.ck(part) for part in parts) // 2), name
    assert (slots.cl_ck, slots.cwl_ck) == (table.ck("CL"), table.ck("CWL"))
    rest = {field.name for field in dataclasses.fields(HbmSlots)} - set(SUMS) - {"cl_ck", "cwl_ck"}
    assert rest == {"debt_step"}
    banks = CONFIG.stack_ids * CONFIG.banks
    assert 2 * banks * slots.debt_step <= table.ck("tREFI") < 2 * banks * (slots.debt_step + 1)


def test_devices_differ_in_latency_and_column_spacing_only():
    fast = HbmTimings(rcd_read=5.0, faw=3.0, refi=8000.0, cl=18.0, ccd_l_ck=4)
    table = table_of(dataclasses.replace(CONFIG, bank_groups=2, timings=fast))
    assert (table.ck("CL"), table.ck("tCCD_L"), table.organisation.bank_groups) == (45, 4, 2)
    assert (table.ck("tRCDRD"), table.ck("tFAW"), table.ck("tREFI")) == (49, 38, 9750)
