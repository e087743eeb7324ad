"""How fast this machine runs alphamf, beside plain NumPy and beside what the machine could do.

All that is compared is measured in turn, in one process and on one core: on a machine that others
use as well, ratios hold where times do not.
"""

from alphamf.research.speed.measure import Denoiser, Step, denoisers, made_up_sound, steps
from alphamf.research.speed.parallel import Cores, cores

__all__ = ["Cores", "Denoiser", "Step", "cores", "denoisers", "made_up_sound", "steps"]
